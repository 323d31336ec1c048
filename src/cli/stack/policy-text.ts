/**
 * Generates `docs/reference/policy.txt`, the rights that each operation needs, and who may raise rights, to be reviewed in diffs; and
 * `docs/reference/roles.md`, which role may run which operation that is not about data.
 */

import { PRIVILEGES, type Privilege } from '../../access/privileges.ts'
import type { AnyOperation } from '../../core/operation.ts'
import { VIEWERS } from '../../core/policy.ts'
import { SYSTEM_REASONS } from '../../infra/postgres/system-scope.ts'

const OPERATIONS_HEAD = `The rights that each operation needs. The caller needs one of the roles; if its key or token is restricted to scopes, it
also needs the scope. [+scope] is needed for some inputs only. Without a scope (-), a restricted key or token cannot call
the operation, unless its domain is any.
`

const PRIVILEGES_HEAD = `Code that acts with other rights than those of its caller (src/access/privileges.ts). Each row is for one module.
inRole, asSubject: the same workspace in the role TO. withLookups: with values that rules look up. inWorkspace: a workspace
that an admin reaches. ifActive, inAnyState, ofTenant: work without a credential, in an active workspace, in any, or in a
tenant. tables: the tables of declared collections in a workspace that an admin reaches, as their owner, which sees none of their rows.
purge: all rows of a tenant or workspace that an admin reaches, to count and delete them.
service: one service behind a scope, which has no rights. FROM: the roles whose scopes may be raised.
`

const SYSTEM_HEAD = `What the platform does before a tenant is known (src/infra/postgres/system-scope.ts): each reason with its database role.
`

const ROLES_HEAD = `# Roles and operations

What each role of the structure may run, in its own tenant or workspace ([roles](../roles.md)). Operations on data belong to API keys and users: see
[policy.txt](policy.txt). **payloads**: \`left out\` of records, or \`refused\` as a whole, for a caller who has neither started the execution or run nor
has the right to see payloads.
`

type Cells = readonly string[]

export function policyText(operations: readonly AnyOperation[]): string {
  return [
    `${OPERATIONS_HEAD}\n${operationTable(operations)}`,
    `${PRIVILEGES_HEAD}\n${privilegeTable()}`,
    `${SYSTEM_HEAD}\n${systemTable()}`,
  ].join('\n')
}

function operationTable(operations: readonly AnyOperation[]): string {
  const rows = operations.map((operation) => {
    const { name, http, domain, roles, stability } = operation
    return [name, http.method, http.path, domain, roles.join(','), scopesOf(operation), stability]
  })
  const head = ['OPERATION', 'METHOD', 'PATH', 'DOMAIN', 'ROLES', 'SCOPE', 'STABILITY']
  return table([22, 6, 66, 16, 53, 32, 0], head, rows)
}

/** The scope of an operation; `[+…]` are needed for some inputs only. */
const scopesOf = ({ requiredScope = '-', conditionalScopes = [] }: AnyOperation): string =>
  [requiredScope, ...conditionalScopes.map(({ scope }) => `[+${scope}]`)].join('')

const ROLE_OF = {
  tables: 'tenon_tables',
  purge: 'tenon_purger',
  snapshot: 'service,workspace_admin,tenant_admin',
} as const

function privilegeTable(): string {
  const rows = Object.entries<Privilege>(PRIVILEGES).map(([consumer, row]) => {
    const from = 'from' in row ? row.from.join(',') : '-'
    const to = 'to' in row ? row.to.join(',') : row.opener === 'service' ? row.service : ROLE_OF[row.opener]
    return [consumer, row.opener, from, to, row.module, row.reason]
  })
  return table([22, 11, 57, 23, 50, 0], ['CONSUMER', 'OPENER', 'FROM', 'TO', 'MODULE', 'REASON'], rows)
}

function systemTable(): string {
  const rows = Object.entries(SYSTEM_REASONS).flatMap(([name, { role, modules, reason }]) =>
    modules.map((module) => [name, role, module, reason]),
  )
  return table([15, 19, 50, 0], ['SYSTEM', 'ROLE', 'MODULE', 'REASON'], rows)
}

function table(widths: readonly number[], head: Cells, rows: readonly Cells[]): string {
  const lineOf = (row: Cells) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' ')
  return `${[lineOf(head), ...rows.map(lineOf).sort()].join('\n')}\n`
}

/** As Markdown. */
export function rolesPage(operations: readonly AnyOperation[]): string {
  const structural = operations.filter(({ domain }) => domain === 'structural_admin')
  const rows = structural.map(({ name, roles, http, payloads = '' }) => {
    const may = VIEWERS.map((role) => (roles.includes(role) ? 'x' : ''))
    return `| \`${name}\` | \`${http.method}\` | ${[...may, payloads].join(' | ')} |`
  })
  const head = ['operation', '', ...VIEWERS.map((role) => `\`${role}\``), 'payloads']
  return `${ROLES_HEAD}\n| ${head.join(' | ')} |\n|${'---|'.repeat(head.length)}\n${rows.sort().join('\n')}\n`
}
