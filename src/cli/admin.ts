/** `tenon tenant create`, `tenon key create`. */

import { need, operatorClient, readSettings } from './settings.ts'
import { printJson } from './verb.ts'

const WAIT_S = 30

/** Waits for the provisioning and prints the tenant as JSON. */
export async function createTenant(options: { name: string; slug: string }): Promise<number> {
  const client = await operatorClient(await readSettings())
  const { name, slug } = options
  return printJson(await client.post('/v1/tenants', { name, slug }, WAIT_S))
}

/** Prints the key with its text: the only time that it can be seen. */
export async function createKey(options: {
  kind: string
  name: string
  workspace?: string
}): Promise<number> {
  const settings = await readSettings()
  const client = await operatorClient(settings)
  const workspace_id = options.workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return printJson(
    await client.post('/v1/api-keys', { workspace_id, kind: options.kind, name: options.name }),
  )
}
