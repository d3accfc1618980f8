-- Schema 11: the longest parts of an Agent have columns of their own. Most commands read none of them.
ALTER TABLE agent ADD COLUMN inventory TEXT CHECK (inventory IS NULL OR json_valid(inventory));
ALTER TABLE agent ADD COLUMN validations TEXT CHECK (validations IS NULL OR json_valid(validations));
-- SQLite makes no checksums. The program makes those of these Agents after the migration.
UPDATE agent SET
  inventory = body -> '$.status.inventory',
  validations = body -> '$.status.validationsInfo',
  body = json_remove(body, '$.status.inventory', '$.status.validationsInfo'),
  checksum = NULL;
