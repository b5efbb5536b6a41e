"""Limits of a server: how large requests may be, how many may wait, and how long they may take."""

from pydantic import Field

from regard.config import Config


class Limits(Config):
    body: int = Field(262_144, ge=1)
    """Bytes of a request body"""
    chars: int = Field(20_000, ge=1)
    """Characters of a text, and of all texts of a request"""
    sentences: int = Field(2_000, ge=1)
    """Sentences of all texts of a request"""
    tokens: int = Field(512, ge=1)
    """Tokens of a sentence, of a text that is not split into sentences, and of an output"""
    texts: int = Field(32, ge=1)
    """Texts of a request to OpenAI's API"""
    q_texts: int = Field(128, ge=1)
    """Texts of a request to LibreTranslate's API"""
    scores: int = Field(65_536, ge=1)
    """Log-probabilities in a response of OpenAI's API"""
    terms: int = Field(256, ge=1)
    """Terms in the glossary of a request"""
    term_chars: int = Field(200, ge=1)
    """Characters of a term, and of its targets"""
    beam: int = Field(16, ge=1)
    """Beam width, and hypotheses per text"""
    queue: int = Field(64, ge=1)
    """Jobs that wait or run, each with up to 2,000 characters, of each kind; more are refused"""
    inspect_queue: int = Field(256, ge=1)
    """The same for traces and what is read of them: the page of a whole class asks at once"""
    inspect_queue_seconds: float = Field(30.0, gt=0.0)
    """How long such a job may wait"""
    batch: int = Field(32, ge=1)
    """Texts that are decoded at once"""
    queue_seconds: float = Field(5.0, gt=0.0)
    """How long a job may wait"""
    decode_seconds: float = Field(30.0, gt=0.0)
    """How long a job may run, or a portion of a long text"""
    text_seconds: float = Field(300.0, gt=0.0)
    """How long all portions of a long text may run together"""
    linger_seconds: float = Field(0.002, ge=0.0)
    """How long the first job of a batch waits for others, if there were others just before"""
    traces: int = Field(2_048, ge=1)
    """Traces that are stored"""
    trace_bytes: int = Field(256 << 20, ge=1)
    """Bytes of all stored traces, and as many of attention weights; those that are not stored are computed again"""
    tab_traces: int = Field(16, ge=1)
    """Traces that are stored for one tab of a browser"""
    tab_trace_bytes: int = Field(32 << 20, ge=1)
    """Bytes of the stored traces of one tab"""
    trace_seconds: float = Field(600.0, gt=0.0)
    """How long a trace is stored"""
    head_rows: int = Field(16, ge=1)
    """Variants of a sentence that are computed at once, to rank heads by their effect"""
    tensor_bytes: int = Field(32 << 20, ge=1)
    """Bytes of the tensors in one response"""
    sessions: int = Field(1_000, ge=1)
    """Browsers that are signed in; with one more, the oldest session ends"""
    session_seconds: float = Field(43_200.0, gt=0.0)
    """How long a browser stays signed in"""
    wrong_tokens: int = Field(10, ge=1)
    """Different wrong tokens after which an address must wait"""
    throttle_seconds: float = Field(60.0, gt=0.0)
    """The longest such waiting time"""
    throttled_addresses: int = Field(10_000, ge=1)
    """Addresses whose wrong tokens are counted"""
    file: int = Field(8 << 20, ge=1)
    """Bytes of a document, and of the text and XML in it when it is unpacked"""
    file_unpacked: int = Field(64 << 20, ge=1)
    """Bytes of a document when it is unpacked"""
    file_chars: int = Field(500_000, ge=1)
    """Characters to translate in a document"""
    file_seconds: float = Field(900.0, gt=0.0)
    """How long the translation of a document may take"""
    file_requests: int = Field(4, ge=1)
    """Documents that are received or translated at the same time; more are refused"""
    stored_files: int = Field(32, ge=1)
    """Translated documents that are stored"""
    stored_file_bytes: int = Field(128 << 20, ge=1)
    """Bytes of all stored documents"""
    stored_file_seconds: float = Field(600.0, gt=0.0)
    """How long a document is stored"""
