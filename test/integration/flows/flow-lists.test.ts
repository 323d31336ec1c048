/** Lists of flows and of their versions: whole pages of the largest flows, since they leave the sources out. */

import { expect, test } from 'vitest'
import { ok } from '../../support/clients/mcp.ts'
import { asSuperuser, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('two hundred flows and versions of the largest size: listed in one page, without sources', async () => {
  const workspace = await createTestWorkspace()
  const { tenantId, workspaceId, operator: as } = workspace
  const own = [tenantId, workspaceId]
  await asSuperuser(
    `insert into tenon.flows (tenant_id, workspace_id, id, name, source, latest_version)
     select $1, $2, 'flow_' || lpad(n::text, 26, '0'), 'f' || n, repeat('#', 262144), 200 from generate_series(1, 200) n`,
    own,
  )
  await asSuperuser(
    `insert into tenon.flow_versions (tenant_id, workspace_id, flow_id, version, sha256, source, ir, namespace, document_name,
       document_version, secrets, checks_input, created_by)
     select $1, $2, 'flow_' || lpad('1', 26, '0'), n, n, repeat('#', 262144), '{}', 'n', 'f1', '1', '{}', false, 'x'
     from generate_series(1, 200) n`,
    own,
  )
  for (const path of ['', '/f1/versions']) {
    const list = call('GET', `${workspace.flows}/definitions${path}?page[size]=200`, { as })
    const { data } = await ok(list)
    expect(data).toHaveLength(200)
    expect(data.filter((one: object) => 'source' in one)).toEqual([])
  }
})
