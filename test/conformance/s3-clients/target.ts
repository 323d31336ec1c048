/** The workspace that clients use: its bucket, a storage key, and both as the environment of a program. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { ApiClient, fetchToken } from '../../../src/cli/client.ts'
import type { Running } from '../../support/stack/start.ts'

const execute = promisify(execFile)

export interface Target {
  readonly bucket: string
  readonly endpoint: string
  /** A folder for files. */
  readonly dir: string
  /** Runs a program with the key. @returns what it prints @throws Error with what it prints on stderr */
  readonly run: (
    program: string,
    args: readonly string[],
    more?: Readonly<Record<string, string>>,
  ) => Promise<string>
}

export async function openTarget({ url, clientId, clientSecret }: Running, dir: string): Promise<Target> {
  const admin = new ApiClient(url, {
    authorization: `Bearer ${await fetchToken(url, clientId, clientSecret)}`,
  })
  const tenant = await admin.post<{ id: string }>('/v1/tenants', { name: 'Clients', slug: 'clients' }, 30)
  const workspace = await admin.post<{ id: string; bucket: string }>(
    '/v1/workspaces',
    { tenant_id: tenant.id, name: 'Clients', slug: 'clients' },
    30,
  )
  const actions = ['read', 'write', 'list']
  const wanted = {
    workspace_id: workspace.id,
    kind: 'storage',
    name: 'clients',
    actions,
    rate_limit: 1_000_000,
  }
  const key = await admin.post<{ id: string; key: string }>('/v1/api-keys', wanted)
  const env = {
    ...{ PATH: process.env['PATH'] ?? '', HOME: dir, LANG: 'C.UTF-8', AWS_EC2_METADATA_DISABLED: 'true' },
    ...{ AWS_ACCESS_KEY_ID: key.id, AWS_SECRET_ACCESS_KEY: key.key, AWS_DEFAULT_REGION: 'us-east-1' },
    ...{ AWS_ENDPOINT_URL: `${url}/s3`, BUCKET: workspace.bucket },
  }
  return {
    ...{ bucket: workspace.bucket, endpoint: `${url}/s3`, dir },
    run: async (program, args, more = {}) => {
      const options = { env: { ...env, ...more }, maxBuffer: 64 * 1_048_576 }
      const { stdout } = await execute(program, args, options).catch((error: Error & { stderr?: string }) => {
        throw new Error(`${program} ${args.join(' ')}: ${error.stderr ?? error.message}`)
      })
      return stdout
    },
  }
}
