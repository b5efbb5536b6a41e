"""DocumentError: what is wrong with a document, without any of its content."""

from regard.errors import UserError


class DocumentError(UserError):
    """A document that cannot be translated. The message continues a sentence that begins with the document's name."""
