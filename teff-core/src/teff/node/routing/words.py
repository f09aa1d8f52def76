"""The words that decide how a reply is read: denials, cues, labels. All in the folded form.

English is covered widely, the other languages by what a short routing reply is made of. A word that
is missing here costs a second question, never a wrong route: without a cue, one name must stand
alone.
"""

from __future__ import annotations

import re

__all__ = [
    "AFTER_NAME",
    "BEFORE_NAME",
    "CLOSING",
    "COMPLETED",
    "CONJUNCTION",
    "DECISION",
    "DENIAL",
    "DENIAL_AFTER",
    "DENIAL_OF_MANY",
    "FALSY",
    "FILLERS",
    "NO_DENIAL",
    "OTHERWISE",
    "PHRASES",
    "PLAN",
    "REMARK",
    "SUBORDINATE",
    "words_of",
]


def _any_word(*lines: str) -> str:
    return rf"\b(?:{'|'.join(' '.join(lines).split())})\b"


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


def words_of(text: str) -> set[str]:
    """Return the words of a text; ``next_agent`` is two.

    >>> sorted(words_of("next_agent: x"))
    ['agent', 'next', 'x']
    """
    return set(re.findall(r"[^\W_]+", text))


# --- Denials: the name that follows is not meant.

_DENYING = _any_word(
    r"not n't never no nor neither none without except excluding unlike cannot cant dont doesnt isnt",
    r"wont avoid skip rejects? rejected excludes? excluded instead\s+of rather\s+than other\s+than",
    "не ни нет без кроме вместо nicht kein\\w* weder ohne statt pas aucun\\w* sans jamais sin nunca",
    "tampoco não nem non né senza niet geen nie inte ikke",
)
DENIAL = re.compile(
    rf"{_DENYING}|\w+n't\b|(?<=[\ue000-\uf8ff])\s+over\b"
    "|不是|并不|並不|而非|不|别|別|勿|没有|沒有|无需|無需|除了|\u274c|\u2717|\u2718|\U0001f6ab"
)

#: A denial of this kind goes on over a list: "none of billing, technical".
DENIAL_OF_MANY = re.compile(_any_word("none neither weder ни ninguno ninguna aucun aucune nessuno"))

#: Directly after a name: "billing is not …".
DENIAL_AFTER = re.compile(
    r"\s*(?:agent|team|department|one)?\s*(?:\w+n't\b|cannot\b"
    r"|(?:is|was|does|did|can|could|will|would|should|has|have|may|must)\s+(?:not|never|no)\b)"
    r"|[가이은는]?\s*(?:아니|말고)|(?:では|じゃ)な|以外"
)

#: Phrases that mean another word than they are made of.
PHRASES = (
    (re.compile(r"\bas well as\b|\bbut also\b"), "and"),
    (re.compile(r"\b(?:anything|everything|everyone|all) but\b"), "not"),
    (re.compile(r"\bnot only\b"), ""),
)

#: Not a denial, although it holds the word of one.
NO_DENIAL = re.compile(
    r"\b(?:no|without(?:\s+an?y?)?)\s+(?:doubt|question|problem|worries)\b|\bwhy\s+not\b"
)

#: After a name: that agent has had its turn, or is denied.
COMPLETED = re.compile(
    r"\balready\b|\b(?:is|are|was|has\s+been|have\s+been)\s+(?:done|finished|completed?|solved|resolved"
    r"|answered|handled|closed)\b|\b(?:has|have)\s+(?:finished|answered|replied|responded|completed)\b"
    r"|\b(?:not|never|cannot|unnecessary|irrelevant|nothing|no\s+(?:longer|more|need))\b|\w+n't\b"
    "|\\b(?:не|нет|nicht|pas|уже)\\b|不|ではな|じゃな|以外|아니|말고"
)

FALSY = re.compile(r"\W*(?:false|no|0(?:\.0+)?|none|null|n|off|нет|nein|non|否)\W*")

# --- How sentences hang together.

#: Begins a clause.
CONJUNCTION = re.compile(
    _any_word(
        "so therefore thus hence but however yet because since as although though while whereas",
        "given if unless due поэтому значит но \u0430 потому поскольку если хотя weil obwohl wenn sondern",
        "aber deshalb mais donc car puisque sino pero porque aunque ma perché",
    )
    + "|因为|因為|由于|由於|如果|虽然|所以|因此|而是|但是"
)

#: A clause that begins so says why, not what.
SUBORDINATE = re.compile(
    _any_word(
        "because since as although though while whereas given if unless due потому поскольку если",
        "хотя weil obwohl wenn car puisque porque aunque perché",
    )
    + "|因为|因為|由于|由於|如果|虽然"
)

#: A clause that begins so offers another choice beside the one before it.
OTHERWISE = re.compile(
    _any_word("or and nor otherwise else и или либо ни oder und ou et y") + "|或者|或|还是|和"
)

#: A sentence with one of these is an order of steps; several names in it are no choice.
PLAN = re.compile(
    _any_word(
        "first firstly then after afterwards once before until finally later сначала потом затем",
        "zuerst dann danach puis ensuite luego después primero poi",
    )
    + r"|\bfollowed\s+by\b|先|然后|然後|再"
)

#: Politeness at the end of a reply.
CLOSING = re.compile(
    r"\W*(?:let me know|thanks|thank you|have a (?:nice|good|great)|i hope|hope (?:this|that)|feel free"
    r"|please let|please feel|if you (?:need|have)|is there anything|anything else|happy to help)\b"
)

# --- What points at the name: "route to …", "… should handle it".

BEFORE_NAME = re.compile(
    r"(?:\b(?:go|goes|going|route[ds]?|routing|sen[dt]|sends|hand(?:ed|s)?|transfer(?:red|s)?"
    r"|forward(?:ed|s)?|delegate[ds]?|assign(?:ed|s)?|belongs?|pass(?:ed|es)?|switch|move[sd]?"
    r"|refer(?:red|s)?|escalate[ds]?|direct(?:ed|s)?|turn)\b[^,:=]{0,60}\bto"
    r"|\b(?:choos(?:e|es|ing)|chose|pick|picks|select|selects|call|calls|invoke|ask|consult|go with"
    r"|going with|opt for|suggest|recommend|needs?|wants?|my (?:answer|choice|pick|decision) is"
    r"|(?:answer|choice|agent|step|speaker|one|decision) (?:is|should be|would be|must be)"
    r"|(?:job|case|matter|task|question|work|one) for))"
    r"\s+(?:(?:the|an?|our|your)\s+)?[^\w,:=\ue000-\uf8ff]*$"
)
AFTER_NAME = re.compile(
    r"[^\w,:=]*\s(?:agent |team |department |desk |specialist )?(?:should|will|would|must|can|has to"
    r"|needs to|ought to|handles|comes next|goes next|takes|it is\b|is (?:needed|next|required"
    r"|responsible|(?:clearly |probably )?(?:the )?(?:right|best|correct|next|proper|appropriate)))"
)

#: What may stand beside a name that is the whole answer.
FILLERS = _words(
    "a an the so therefore then thus hence now here ok okay sure yes well hmm maybe perhaps probably",
    "likely definitely clearly certainly please agent agents team department desk specialist expert",
    "assistant worker role and or first next finally is it its this that s but",
    "\u0430 и но да значит es ist sondern mais donc pero sino",
    "是 就 用 请 請 选 選 而是 です は だ 입니다 은 는",
)

# --- Labels: the words before a colon, the keys of an object, the names of tags.

#: Announces the answer.
DECISION = _words(
    "next agent route routing answer decision choice action selected selection chosen choose pick",
    "assign assigned assignee target destination recipient goto transfer handoff delegate speaker",
    "worker expert final result output response recommendation conclusion verdict name tool function",
    "ответ агент маршрут выбор решение следующий дальше antwort entscheidung nächster réponse choix",
    "suivant respuesta siguiente agente decisión risposta resposta próximo",
    "答案 回答 路由 选择 選擇 下一步 决定 決定 代理 答え 次 選択 답변 다음",
)

#: Announces something else, whatever other words stand beside it.
REMARK = _words(
    "reason reasoning because why thought thoughts thinking analysis explanation rationale context",
    "note notes summary observation current previous last completed rejected excluded not history",
    "user human question task request input message options option available candidates choices",
    "confidence topic issue problem причина мысль тема grund raison motivo razón 原因 理由 思考 이유",
)
