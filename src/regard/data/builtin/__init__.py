"""Built-in datasets: a bilingual grammar, toy tasks, shapes with captions, short stories."""
