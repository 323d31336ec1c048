/** Creates the tenant that a benchmark uses. */

import { randomBytes } from 'node:crypto'
import { ApiClient, fetchToken } from '../src/cli/client.ts'
import type { Running } from '../test/support/stack/start.ts'

export interface TestWorkspace {
  readonly url: string
  /** With the operator's rights. */
  readonly admin: ApiClient
  /** The same rights, for another kind of client. */
  readonly authorization: string
  readonly tenantId: string
  readonly workspaceId: string
  readonly apikey: string
}

/** A tenant with one workspace and a service key. */
export async function createTestWorkspace({ url, clientId, clientSecret }: Running): Promise<TestWorkspace> {
  const authorization = `Bearer ${await fetchToken(url, clientId, clientSecret)}`
  const admin = new ApiClient(url, { authorization })
  const slug = `bench-${randomBytes(6).toString('hex')}`
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug }, 30)
  const body = { tenant_id: tenant.id, name: 'Bench', slug }
  const { id: workspace_id } = await admin.post<{ id: string }>('/v1/workspaces', body, 30)
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', {
    workspace_id,
    kind: 'service',
    name: 'bench',
  })
  return { url, admin, authorization, tenantId: tenant.id, workspaceId: workspace_id, apikey: key }
}
