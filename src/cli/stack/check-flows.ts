/** Compiles the published flows of an installation with this build, before it is upgraded. */

import type { Client } from 'pg'
import { compileFlow } from './local-compiler.ts'

export interface FlowsChecked {
  /** How many; null if the role of the database does not see those of all tenants. */
  readonly checked: number | null
  /** Their newest versions that this build refuses. */
  readonly refused: readonly RefusedFlow[]
}

export interface RefusedFlow {
  readonly tenant_id: string
  readonly workspace_id: string
  readonly name: string
  readonly version: number
  /** The first sentence of the compiler. */
  readonly problem: string
}

interface Published extends Omit<RefusedFlow, 'problem'> {
  readonly id: string
  readonly source: string
}

const PAGE = 200

export async function checkFlows(client: Client): Promise<FlowsChecked> {
  const { rows } = await client.query<{ sees: boolean }>(
    'select rolsuper or rolbypassrls as sees from pg_roles where rolname = current_user',
  )
  if (rows[0]?.sees !== true) return { checked: null, refused: [] }
  let checked = 0
  const refused: RefusedFlow[] = []
  for (let page = await publishedAfter(client); page.length > 0; ) {
    checked += page.length
    for (const { id: _id, source, ...flow } of page) {
      const [first] = compileFlow(source).diagnostics
      if (first !== undefined) refused.push({ ...flow, problem: first.message })
    }
    page = page.length < PAGE ? [] : await publishedAfter(client, page.at(-1))
  }
  return { checked, refused }
}

async function publishedAfter(client: Client, last?: Published): Promise<Published[]> {
  const { rows } = await client.query<Published>(
    `select f.tenant_id, f.workspace_id, f.id, f.name, v.version, v.source
     from tenon.flows f join tenon.flow_versions v
       on (v.tenant_id, v.workspace_id, v.flow_id, v.version) = (f.tenant_id, f.workspace_id, f.id, f.latest_version)
     where f.deleted_at is null and v.deleted_at is null and (f.tenant_id, f.workspace_id, f.id) > ($1, $2, $3)
     order by f.tenant_id, f.workspace_id, f.id limit ${PAGE}`,
    [last?.tenant_id ?? '', last?.workspace_id ?? '', last?.id ?? ''],
  )
  return rows
}
