-- Schema 15: the allowed words of columns, and that documents are JSON, are no longer constraints. The types of the
-- program declare both. As constraints they were declared twice, every command parsed them with the schema, and each
-- document was parsed again when it was written. SQLite cannot drop a constraint without copying the table, so the
-- statements that declare the tables are edited (https://sqlite.org/lang_altertable.html, section 7).
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, ' CHECK (json_valid(body))', '') WHERE type = 'table';
UPDATE sqlite_schema
SET sql = replace(replace(replace(sql,
  ' CHECK (inventory IS NULL OR json_valid(inventory))', ''),
  ' CHECK (validations IS NULL OR json_valid(validations))', ''),
  ' CHECK (conditions IS NULL OR json_valid(conditions))', '')
WHERE name = 'agent_body';
UPDATE sqlite_schema SET sql = replace(sql, ' CHECK (driver IN (
  ''none'', ''fake'', ''openshift-install'', ''exec'', ''ipmitool'', ''redfish'', ''agent''))', '')
WHERE name IN ('cluster', 'job');
UPDATE sqlite_schema SET sql = replace(replace(sql, ' CHECK (
  power_wanted IN (''Unset'', ''Running'', ''Hibernating'', ''Starting'', ''Stopping'', ''FailedToStart'',
  ''WaitingForMachines'', ''WaitingForNodes'', ''Pausing'', ''WaitingForOperators'', ''FailedToStop'',
  ''WaitingForStop'', ''Unsupported'', ''Paused''))', ''), ' CHECK (
  power IN (''Unset'', ''Running'', ''Hibernating'', ''Starting'', ''Stopping'', ''FailedToStart'',
  ''WaitingForMachines'', ''WaitingForNodes'', ''Pausing'', ''WaitingForOperators'', ''FailedToStop'',
  ''WaitingForStop'', ''Unsupported'', ''Paused''))', '')
WHERE name = 'cluster';
UPDATE sqlite_schema SET sql = replace(replace(sql, ' CHECK (
  pending IN (''Initialized'', ''NoClusters'', ''Assigned'', ''Claimed'', ''PoolMissing'',
  ''PoolDeleting'', ''PoolPaused''))', ''), ' CHECK (
  running IN (''Initialized'', ''Running'', ''Resuming'', ''Deleting'', ''Deleted''))', '')
WHERE name = 'claim';
UPDATE sqlite_schema SET sql = replace(sql, ' CHECK (verb IN (
  ''provision'', ''deprovision'', ''start'', ''stop'', ''health'', ''cycle'', ''state'', ''attach'', ''eject'',
  ''inspect'', ''add-nodes'', ''wipe''))', '')
WHERE name = 'job';
UPDATE sqlite_schema SET sql = replace(replace(replace(sql,
  ' CHECK (dirty IN (0, 1))', ''), ' CHECK (polled IN (0, 1))', ''), ' CHECK (waits IN (0, 1))', '')
WHERE name IN ('due_scope', 'due_object');
PRAGMA writable_schema = RESET;
-- To edit them does not raise `PRAGMA schema_version`, by which other connections notice a new schema. This does.
CREATE INDEX raises_schema_version ON state (id);
DROP INDEX raises_schema_version;
