"""Built-in datasets, all generated: bilingual sentences, toy tasks, captioned images of shapes, short stories."""
