-- Classes of failures. What kind of cause a failed installation had, a digest of the input that it
-- refused, and how many in a row used up no attempt. The same of a cluster that could not be
-- destroyed, with the message of the driver.
ALTER TABLE cluster ADD COLUMN failure_class TEXT;
ALTER TABLE cluster ADD COLUMN refused_input TEXT;
ALTER TABLE cluster ADD COLUMN uncounted_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cluster ADD COLUMN undo_failure TEXT;
ALTER TABLE cluster ADD COLUMN undo_class TEXT;
ALTER TABLE job ADD COLUMN failure_class TEXT;
-- Objects that a pass looks at without a pool: Agents. What is not here has nothing to do before
-- somebody changes it.
CREATE TABLE due_object (
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  -- When something is next to be done by itself.
  due INTEGER,
  -- Whether it was changed and no pass has looked at it since.
  dirty INTEGER NOT NULL CHECK (dirty IN (0, 1)),
  PRIMARY KEY (kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_object_due ON due_object (due) WHERE due IS NOT NULL;
CREATE INDEX due_object_dirty ON due_object (dirty) WHERE dirty = 1;

-- The next pass looks at everything, and gives Agents their rows.
INSERT INTO due_scope VALUES ('', '', NULL, 1, 0, 0)
  ON CONFLICT (namespace, pool) DO UPDATE SET dirty = 1;
