-- Schema 8: answers of claims as small commits, and hosts that are looked at alone.

-- The answer of a claim is one small commit. Which pool it was of, whose pass may be still to come, is
-- kept in the row that every commit writes; how long the claim waited is counted by that pass.
ALTER TABLE state ADD COLUMN answered_namespace TEXT;
ALTER TABLE state ADD COLUMN answered_pool TEXT;
ALTER TABLE claim ADD COLUMN wait_uncounted INTEGER NOT NULL DEFAULT 0;

-- Hosts are looked at alone, as Agents are: while jobs run on them, each pass asks for news. A host
-- leads to the Agents that run on it.
ALTER TABLE due_object ADD COLUMN polled INTEGER NOT NULL DEFAULT 0 CHECK (polled IN (0, 1));
CREATE INDEX due_object_polled ON due_object (polled) WHERE polled = 1;
CREATE INDEX agent_of_host
  ON agent (body ->> '$.metadata.labels."agent-install.openshift.io/bmh"', namespace)
  WHERE body ->> '$.metadata.labels."agent-install.openshift.io/bmh"' IS NOT NULL;

-- Claims of addresses by the account that made them: guests may make a limited number.
CREATE INDEX ip_lease_owner ON ip_lease (more ->> '$.notes.claim.annotations."poolctl.dev/owner"')
  WHERE more ->> '$.notes.claim.annotations."poolctl.dev/owner"' IS NOT NULL;
CREATE INDEX ip_wait_owner ON ip_wait (more ->> '$.notes.claim.annotations."poolctl.dev/owner"')
  WHERE more ->> '$.notes.claim.annotations."poolctl.dev/owner"' IS NOT NULL;
