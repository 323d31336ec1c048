/** Tenants and workspaces as the API names and shows them. */

export type Noun = 'tenant' | 'workspace'

export interface Tenant {
  readonly id: string
  readonly name: string
  readonly slug: string
  readonly state: string
  readonly delete_after: string | null
}

export interface Workspace extends Tenant {
  readonly tenant_id: string
  readonly bucket: string | null
  readonly environment: string
}

const PREFIXES: Readonly<Record<string, Noun>> = { ten: 'tenant', ws: 'workspace' }

/** The path of a tenant or workspace. @throws Error if the id is that of the other noun */
export function pathOf(noun: Noun, id: string): string {
  const actual = PREFIXES[id.split('_')[0] ?? ''] ?? noun
  if (actual !== noun)
    throw new Error(`${id} is a ${actual}. Use the command of the same name below \`tenon ${actual}\`.`)
  return `/v1/${noun}s/${encodeURIComponent(id)}`
}
