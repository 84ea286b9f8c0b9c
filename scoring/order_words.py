"""The words of orders to a judge, in several languages, folded as `scoring.invisible.fold` does.

Words of different languages share a set: whoever writes an order may mix them.
"""

from itertools import product

from scoring.invisible import fold


def _words(text: str) -> frozenset[str]:
    return frozenset(fold(text).split())


DROP = _words(
    """
    ignore disregard forget override overrule neglect
    ignoriere ignorieren ignoriert vergiss vergesst vergessen missachte missachten
    negeer vergeet ignorera glöm ignorer glem
    ignorez ignorer oublie oubliez ignora ignoren ignorad ignorar olvida olvide olviden
    ignorate ignori dimentica dimenticate dimentichi ignora esqueça esquece esqueçam
    desconsidere desconsidera desconsiderem
    игнорируй игнорируйте игнорировать проигнорируй проигнорируйте забудь забудьте
    zignoruj zignorujcie ignoruj zapomnij
    """
)
"""Verbs that tell to leave instructions aside."""

HEED = _words(
    """
    follow following obey heed apply attention beachte beachten befolge befolgen opvolgen volg
    compte suis suivez caso sigas siga conto seguire siga
    следуй следуйте внимания
    """
)
"""Verbs, or what is left of an idiom, that tell so with a negation."""

NOT = _words(
    """
    not never don doesn no stop cease nicht niemals keine kein niet nooit ne n pas jamais nunca non
    mai não nem никогда нельзя nie inte ikke cannot without
    """
)
CYRILLIC_NOT = fold("не")
"""Folded it looks like an English word: it counts before words of its own script."""

OTHERS = _words("who they we he she it that which i terms conditions sie wir die qui que che")
"""After these, a verb tells what somebody does: it is no order."""

OPENERS = _words(
    """
    please must should you and then to now also just so or instead will shall kindly simply first
    always therefore bitte und dann nun jetzt et puis y luego por favor e poi ora и затем теперь
    необходимо нужно a i en dan
    """
)
"""What may stand before the verb of an order, besides the beginning and punctuation."""

BEFORE = _words(
    """
    previous previously prior above earlier preceding foregoing existing original initial former
    before system up
    vorherigen vorherige vorigen bisherigen bisherige obigen obige früheren vorangegangenen oben
    vorige eerdere bovenstaande voorgaande vorige
    précédentes précédente précédents précédent dessus antérieures
    anteriores anterior previas previos precedenti precedente sopra prévias acima
    предыдущие предыдущих предыдущую прежние прежних прошлые прошлых вышеуказанные выше
    poprzednie poprzednich wcześniejsze wcześniejszych powyższe powyższych
    tidigare ovanstående tidligere
    """
)

EACH = _words(
    """
    all any every each both your alle allen aller jede jedes jeden jedem sämtliche sämtlichen deine
    ihre elk elke ieder jouw toutes tous tout chaque toda todas todo todos cada tutte tutti ogni
    все всех всем всё каждое каждому каждого каждый твои ваши wszystkie wszystkich wszystkim każde
    każdemu alla varje
    """
)

BETWEEN = _words(
    """
    the of and my these those that this you were was been have has given received told with to in or
    other set from said bitte sie die der den das mir dir gegebenen stehenden und von de het
    les des la le ci qui vos tes ces aux las los que te di del a al sus tus dadas
    gli lo i e tue sue delle dei che as os suas o y et и на мои свои данные z dina dine dem
    """
)
"""What may stand between an order's verb and its object."""

RULES = _words(
    """
    instruction instructions prompt prompts directive directives guideline guidelines
    anweisung anweisungen instruktion instruktionen vorgaben instructie instructies aanwijzingen
    consigne consignes instrucción instrucciones indicaciones istruzione istruzioni indicazioni
    instrução instruções orientações
    инструкцию инструкции инструкций указание указания указаний instrukcje instrukcji
    instrukcjach polecenia poleceń poleceniach instruktion instruktioner instruksjoner
    """
)
LOOSE_RULES = _words(
    """
    rule rules direction directions command commands context criteria regel regeln regels règle
    règles regla reglas regola regole regra regras правила правил zasady reguły regler
    """
)
"""Rules of many other kinds than a judge's, too."""

ABOUT = _words("regarding concerning relating about bezüglich betreffend concernant sobre")
"""After these it is told what the instructions were about: a letter, not an order to a judge."""

GIVE = _words(
    """
    give assign rate score mark grade award bewerte bewerten gib geben vergib geef beoordeel
    donne donnez attribue attribuez notez évalue évaluez asigna asigne da dé dale otorga puntúa
    califica pon assegna dai valuta attribuisci atribua dê avalie classifique поставь поставьте
    оцени оцените выставь przyznaj oceń ge betygsätt
    """
)
CALL = _words("mark rate label judge classify report treat consider accept declare deem")
ANSWER = _words(
    """
    answer reply respond antworte antworten antwoord réponds répondez
    responde rispondi responda ответь ответьте odpowiedz svara
    """
)
TELL = _words("output return say report print")
"""Verbs that order a reply only where a score is spoken of."""
FIELD = _words(
    """
    field fields value values extraction extractions output record records entry entries feld felder
    feldern veld velden champ champs campo campos campi valeur valeurs valores поле поля полю полям
    полей pole pola polom fält
    """
)
WHOLE = _words("extraction output")
"""What an order may name in place of each field."""
FULL = _words("100 10/10 100/100 100% hundred")
TOP = _words(
    """
    highest maximum maximal maximale top full perfect best höchste höchsten höchstpunktzahl volle
    hoogste máxima máximo massimo massima максимальную максимальный высший высшую certain
    """
)
POINTS = _words(
    """
    score scores rating ratings marks grade points confidence certainty note punktzahl
    höchstpunktzahl bewertung punkte score cijfer nota puntuación calificación punteggio voto
    pontuação оценку балл балла баллов ocenę poäng
    """
)
TRUE = _words("correct right verified accurate valid true")
FALSE = _words("incorrect wrong erroneous inaccurate")
EMPTY = _words("empty [] none leer vide vacía")
BE = _words("is are be was were")
MUST = _words("must should shall has have")
LIST = _words("list flag report mark mention name")
LIMITS = _words("than most under over above below exceed between least maximum from")
"""Before a number: it bounds something."""
AFTER_FULL = _words(
    """
    for and to in points out throughout everywhere as with if because on at für in und pour à et
    a para por y e con per para за и баллов punten percent whatever
    """
)
"""What may follow a mark; a noun would make it a count."""

_LEET = {"a": "a4", "e": "e3", "i": "i1", "o": "o0", "s": "s5", "t": "t7"}
LEET_DROP = frozenset(
    "".join(letters)
    for verb in ("ignore", "disregard", "forget", "override")
    for letters in product(*(_LEET.get(c, c) for c in verb))
) - {"ignore", "disregard", "forget", "override"}
REVERSED = frozenset(w[::-1] for w in ("ignore", "disregard", "forget", "fields", "field"))
ROTATED = _words("vtaber qvfertneq sbetrg svryqf svryq")
"""`ignore`, `disregard`, `forget`, `fields`, `field`, each letter turned by thirteen places."""
