-- Schema 14: the conditions of an Agent have a column of their own, as its other long parts.
ALTER TABLE agent_body ADD COLUMN conditions TEXT CHECK (conditions IS NULL OR json_valid(conditions));
-- SQLite makes no checksums. The program makes those of these Agents after the migration.
UPDATE agent_body SET
  conditions = nullif(body -> '$.status.conditions', 'null'),
  body = json_remove(body, '$.status.conditions'),
  checksum = NULL;
-- The digest of the program whose plan has left the Agent as it is. That program does not work out again what
-- follows from the Agent alone, such as the results of its checks and its conditions.
ALTER TABLE agent ADD COLUMN settled_by TEXT;
