"""The closed vocabularies: why a call or record failed, where a record goes, and why."""

from enum import StrEnum


class FailureReason(StrEnum):
    """Why a record could not be read, or why a verifier call gave no verdict."""

    INVALID_UTF8 = "invalid_utf8"
    INVALID_JSON = "invalid_json"
    INVALID_RECORD = "invalid_record"
    INVALID_SCHEMA = "invalid_schema"
    EMPTY_OUTPUT = "empty_output"
    UNREADABLE_FILE = "unreadable_file"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    EMPTY_RESPONSE = "empty_response"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    PROVIDER_ERROR = "provider_error"
    BUDGET_EXHAUSTED = "budget_exhausted"


class Route(StrEnum):
    """Where a scored record goes; what could not be scored is a dead letter instead."""

    AUTO_ACCEPT = "auto_accept"
    HUMAN_REVIEW = "human_review"


class ReviewReason(StrEnum):
    """Why a record goes to human review; those about one field are written `reason:field`."""

    DOCUMENT_BELOW_THRESHOLD = "document_below_threshold"
    FIELD_BELOW_THRESHOLD = "field_below_threshold"
    UNSCORED_FIELD = "unscored_field"
    THIN_FIELD = "thin_field"
    TOO_FEW_VERDICTS = "too_few_verdicts"
    REQUIRED_FIELD_MISSING = "required_field_missing"
    SCHEMA_VIOLATION = "schema_violation"
    INSTRUCTION_LIKE_TEXT = "instruction_like_text"
    AUDIT_SAMPLE = "audit_sample"
    UNMATCHED_FIELD_NAME = "unmatched_field_name"
    BUDGET_EXHAUSTED = "budget_exhausted"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    LITERAL_EVIDENCE_ONLY = "literal_evidence_only"
    SHADOW = "shadow"

    def of(self, field: str) -> str:
        """This reason, said of one field: `thin_field:total_amount`."""
        return f"{self.value}:{field}"
