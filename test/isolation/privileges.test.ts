/** Rights are raised in the modules that the table of privileges names, from the roles that it names, and nowhere else. */

import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import type { Access } from '../../src/access/access.ts'
import type { PlatformServices } from '../../src/access/internals.ts'
import { type Consumer, type Granted, PRIVILEGES, type Privilege } from '../../src/access/privileges.ts'
import { AdminScope, WorkspaceScope } from '../../src/access/scope.ts'
import { randomIds } from '../../src/core/ids.ts'
import { EVERYBODY, type Role } from '../../src/core/policy.ts'
import { SYSTEM_REASONS } from '../../src/infra/postgres/system-scope.ts'

const sources = await readSources()

async function readSources(): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir('src', { recursive: true })
  const names = entries.filter((name) => name.endsWith('.ts'))
  const read = async (name: string) => [name.slice(0, -3), await readFile(`src/${name}`, 'utf8')] as const
  return new Map(await Promise.all(names.map(read)))
}

/** What a pattern with one group finds in the sources: `[text of the group, module]`, sorted. */
function found(pattern: RegExp): [string, string][] {
  const all = [...sources].flatMap(([module, text]) =>
    [...text.matchAll(pattern)].map(([, group = '']): [string, string] => [group, module]),
  )
  return all.sort(byText)
}

const byText = (a: readonly string[], b: readonly string[]) => (String(a) < String(b) ? -1 : 1)
const modulesWith = (pattern: RegExp) =>
  [...sources].flatMap(([module, text]) => (pattern.test(text) ? [module] : [])).sort()

test('privilege: each is taken once, by the module that the table names, in a constant that is not exported', () => {
  const listed = Object.entries(PRIVILEGES).map(([consumer, { module }]) => [consumer, module])
  expect(found(/^const \w+ = privilege\('([a-z_.]+)'\)$/gm)).toEqual(listed.sort(byText))
  // No other use: as a value, under another name, or by a dynamic import.
  expect(
    found(
      /^(?!import \{ privilege \} from|const \w+ = privilege\('[a-z_.]+'\)$)(.*\bprivilege(?:[(),;=}\]]| as ).*)$/gm,
    ),
  ).toEqual([])
  expect(found(/(import\([^)]*\/privileges\.ts)/g)).toEqual([])
  for (const [constant, module] of found(/^const (\w+) = privilege\(/gm))
    expect(sources.get(module)).not.toMatch(
      new RegExp(`export (default ${constant}\\b|\\{[^}]*\\b${constant}\\b)`),
    )
})

test('openers and internals of scopes: imported by the folder access alone, and openers by two files of it', () => {
  expect(modulesWith(/from '[^']*\/openers\.ts'|import\([^)]*\/openers\.ts/)).toEqual([
    'access/derived-scopes',
    'access/privileges',
  ])
  const importers = modulesWith(/from '[^']*\/internals\.ts'|import\([^)]*\/internals\.ts/)
  expect(importers.filter((module) => !module.startsWith('access/'))).toEqual([
    'app/auth-services',
    'app/platform',
  ])
})

test('scopes: constructed in the files that open them', () => {
  expect(modulesWith(/new (Workspace|Caller)Scope\(|AdminScope\.open\(/)).toEqual([
    'access/access',
    'access/openers',
    // The same scope within a transaction.
    'access/scope',
  ])
})

test('scopes of a credential: requested by entry points only', () => {
  expect(modulesWith(/access\.open\w*\(/)).toEqual(['api/request-pipeline', 'mcp/platform/platform-server'])
})

test('system scope: each reason is used by the modules that its row names', () => {
  const listed = Object.entries(SYSTEM_REASONS).flatMap(([reason, { modules }]) =>
    modules.map((module): [string, string] => [reason, module]),
  )
  const leaders = modulesWith(/new LeaderTask\(/)
  const tasks = found(/\breason: '([a-z-]+)'/g).filter(([, module]) => leaders.includes(module))
  const used = [...found(/new SystemScope\('([a-z-]+)'/g), ...tasks].sort(byText)
  expect(used).toEqual(listed.sort(byText))
  const others = found(/(new SystemScope\((?!'))/g).map(([, module]) => module)
  expect(others).toEqual(['infra/postgres/leader-task'])
})

const REF = { tenantId: 'ten_x', workspaceId: 'ws_x' } as const
/** A transaction that runs nothing. */
const database = { transaction: () => 'snapshot' }
const services = { database } as unknown as PlatformServices

/** A privilege of its own, as the modules of the product have taken theirs. */
async function freshPrivileges(): Promise<<C extends Consumer>(consumer: C) => Granted<C>> {
  const path = `../../src/access/privileges.ts?fresh=${randomIds.uuid()}`
  return (await import(path)).privilege
}

/** The role that an opener gives to a scope of a role, or the opener that acts as a role of the database; undefined if it refuses. */
function raised(
  row: Privilege,
  opener: (scope: never, ref: never) => unknown,
  role: Role,
): Role | Privilege['opener'] | undefined {
  const isAdmin = ['inWorkspace', 'tables', 'purge', 'snapshot'].includes(row.opener)
  const actor = { subject: 'sub', role }
  const scope = isAdmin
    ? AdminScope.open(actor, REF, services, randomIds)
    : new WorkspaceScope(actor, REF, services, randomIds)
  try {
    const opened = opener(scope as never, (isAdmin ? REF : {}) as never)
    return opened instanceof WorkspaceScope ? opened.actor.role : row.opener
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError)
    return undefined
  }
}

test('privilege: a scope of any role: raised to the role of the row from those it names, and refused from all others', async () => {
  const privilege = await freshPrivileges()
  for (const [consumer, row] of Object.entries<Privilege>(PRIVILEGES)) {
    if (!('from' in row)) continue
    const opener = privilege(consumer as Consumer) as (scope: never, ref: never) => unknown
    const seen = EVERYBODY.map((role) => [consumer, role, raised(row, opener, role)])
    expect(seen).toEqual(
      EVERYBODY.map((role) => [
        consumer,
        role,
        row.from.includes(role) ? ('to' in row ? row.to[0] : row.opener) : undefined,
      ]),
    )
  }
})

test('privilege: taken a second time in a process: refused', async () => {
  const privilege = await freshPrivileges()
  privilege('flows.keys')
  expect(() => privilege('flows.keys')).toThrow('features/flows/executions/key-operations')
})

test('privilege: an unknown consumer, or an actor of a role that the row does not give: does not compile', () => {
  const misuse = (privilege: <C extends Consumer>(consumer: C) => Granted<C>, access: Access) => {
    // @ts-expect-error no row
    privilege('flows.everything')
    // @ts-expect-error a callback acts as an admin of its workspace only
    void privilege('flows.callbacks')(access, REF, { subject: 'sub', role: 'operator' })
  }
  expect(misuse).toBeTypeOf('function')
})
