"""Translation of documents: txt, html, srt, docx, odt and epub files, with their structure."""
