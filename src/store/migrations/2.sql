-- An address of a cluster names the Agent whose host it is for among the owners of its claim. Until
-- now that was read out of the claim's name, CLUSTER-AGENT, or CLUSTER-AGENT-IPPOOL where a pool gives
-- its hosts addresses of several IPPools. The names of existing claims, of those that wait too, are
-- read here for the last time; CLUSTER-api and CLUSTER-ingress are the cluster's own.
CREATE TEMP TABLE host_claim AS
WITH claim AS (
  SELECT s.namespace, l.claim, p.name AS ip_pool, l.more
  FROM ip_lease l JOIN ip_scope s ON s.id = l.scope JOIN ip_pool p ON p.id = l.pool
  WHERE l.more IS NOT NULL
  UNION ALL SELECT namespace, claim, pool, more FROM ip_wait
), of_cluster AS (
  SELECT c.namespace, c.claim, c.ip_pool, o.value ->> '$.name' AS cluster
  FROM claim c JOIN json_each(c.more, '$.notes.claim.ownerReferences') o
  WHERE o.value ->> '$.kind' = 'ClusterDeployment'
    AND EXISTS (SELECT 1 FROM json_each(c.more, '$.notes.claim.finalizers') f
                WHERE f.value = 'poolctl.dev/cluster')
), named AS (
  SELECT namespace, claim, cluster, ip_pool, substr(claim, length(cluster) + 2) AS name,
    CASE WHEN claim LIKE '%-' || ip_pool THEN substr(claim, length(cluster) + 2,
      length(claim) - length(cluster) - length(ip_pool) - 2) END AS name_before_pool
  FROM of_cluster WHERE substr(claim, 1, length(cluster) + 1) = cluster || '-'
)
SELECT n.namespace, n.claim, CASE
    WHEN w.name IS NULL OR b.name IS NULL THEN coalesce(w.name, b.name)
    WHEN EXISTS (SELECT 1 FROM cluster k
      JOIN pool c ON c.namespace = k.pool_namespace AND c.name = k.pool
      WHERE k.name = n.cluster AND instr(trim(coalesce(
        c.body ->> '$.metadata.annotations."poolctl.dev/node-addresses-from"',
        c.body ->> '$.spec.annotations."poolctl.dev/node-addresses-from"', ''), ' ,'), ',') > 0)
    THEN b.name ELSE w.name END AS agent
FROM named n
LEFT JOIN agent w ON w.namespace = n.namespace AND w.name = n.name
LEFT JOIN agent b ON b.namespace = n.namespace AND b.name = n.name_before_pool
WHERE n.name NOT IN ('api', 'ingress', 'api-' || n.ip_pool, 'ingress-' || n.ip_pool)
  AND coalesce(w.name, b.name) IS NOT NULL;

UPDATE ip_lease SET more = json_insert(more, '$.notes.claim.ownerReferences[#]', json_object(
  'apiVersion', 'agent-install.openshift.io/v1beta1', 'kind', 'Agent', 'name', h.agent))
FROM host_claim h JOIN ip_scope s ON s.namespace = h.namespace
WHERE ip_lease.scope = s.id AND ip_lease.claim = h.claim;

UPDATE ip_wait SET more = json_insert(more, '$.notes.claim.ownerReferences[#]', json_object(
  'apiVersion', 'agent-install.openshift.io/v1beta1', 'kind', 'Agent', 'name', h.agent))
FROM host_claim h WHERE ip_wait.namespace = h.namespace AND ip_wait.claim = h.claim;

DROP TABLE host_claim;

-- When another standby was woken for the claims that waited for this one.
ALTER TABLE cluster ADD COLUMN passed_over INTEGER;

-- Events of an object are found by its name, those of a cluster also without its namespace; jobs of a
-- pool by what was done, in the order they were started; clusters of a namespace.
DROP INDEX event_object;
CREATE INDEX event_object ON event (kind, name, namespace);
DROP INDEX event_cluster;
CREATE INDEX event_cluster ON event (substr(cluster, instr(cluster, '/') + 1))
  WHERE cluster IS NOT NULL;
CREATE INDEX job_pool ON job (pool_namespace, pool, verb, started) WHERE pool IS NOT NULL;
CREATE INDEX cluster_namespace ON cluster (namespace);
