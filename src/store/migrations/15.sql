-- Schema 15: which words a column may have, and that a document is JSON, is declared once: by the types of the
-- program, which writes nothing else and names what it cannot read. As constraints they were declared twice, every
-- command read them with the schema, and every document was parsed once more when it was written.
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
-- Whoever has the state open notices a change of the schema by the count of such changes, which SQLite raises here.
CREATE INDEX counted ON state (id);
DROP INDEX counted;
