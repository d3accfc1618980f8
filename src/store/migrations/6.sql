-- Classes of failures. What kind of cause a failed installation had, a digest of the input that it
-- refused, and how many in a row used up no attempt. The same of a cluster that could not be
-- destroyed, with the message of the driver.
ALTER TABLE cluster ADD COLUMN failure_class TEXT;
ALTER TABLE cluster ADD COLUMN refused_input TEXT;
ALTER TABLE cluster ADD COLUMN uncounted_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cluster ADD COLUMN undo_failure TEXT;
ALTER TABLE cluster ADD COLUMN undo_class TEXT;
ALTER TABLE job ADD COLUMN failure_class TEXT;
