-- Schema 14: which program has planned an Agent as it is and changed nothing. What follows from the Agent
-- alone, such as the results of its checks, is not worked out again by the same program.
ALTER TABLE agent_body ADD COLUMN settled_by TEXT;
