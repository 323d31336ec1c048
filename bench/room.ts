/** What benchmarks act in: a tenant of their own, and a client that costs little. */

import { randomBytes } from 'node:crypto'
import { Agent, request } from 'node:http'
import { ApiClient, fetchToken } from '../src/cli/client.ts'
import type { Running } from '../test/support/start.ts'

export interface Room {
  readonly url: string
  /** With the operator's rights. */
  readonly admin: ApiClient
  readonly tenantId: string
  readonly workspaceId: string
  readonly apikey: string
}

/** A tenant with one workspace and a service key. */
export async function aRoom({ url, clientId, clientSecret }: Running): Promise<Room> {
  const admin = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const slug = `bench-${randomBytes(6).toString('hex')}`
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Bench', slug }, 30)
  const body = { tenant_id: tenant.id, name: 'Bench', slug }
  const { id: workspace_id } = await admin.post<{ id: string }>('/v1/workspaces', body, 30)
  const { key } = await admin.post<{ key: string }>('/v1/api-keys', {
    workspace_id,
    kind: 'service',
    name: 'bench',
  })
  return { url, admin, tenantId: tenant.id, workspaceId: workspace_id, apikey: key }
}

/** Keep-alive and little else: the generator shares the cores with what it measures. */
export function sender(
  url: string,
  apikey: string,
  lanes: number,
): (method: string, path: string, body?: string) => Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: lanes })
  const { hostname, port } = new URL(url)
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const headers = { apikey, ...(body !== undefined && { 'content-type': 'application/json' }) }
      const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        response.on('end', () =>
          (response.statusCode ?? 0) >= 200 && (response.statusCode ?? 0) < 300
            ? resolve(text)
            : reject(new Error(text)),
        )
      })
      sent.on('error', reject)
      sent.end(body)
    })
}
