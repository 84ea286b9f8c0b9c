"""Amounts as people read them."""


def usd(amount: float) -> str:
    """Cents; of less than a dollar their hundredths, too."""
    if amount >= 1 or not amount:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "< $0.0001"
