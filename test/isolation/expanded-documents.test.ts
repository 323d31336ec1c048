/** `expand` shows of a collection what its list shows, to each caller under each rule: the list is the oracle. */

import { expect, test } from 'vitest'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../support/fixtures/tenants.ts'

const RULES: Readonly<Record<string, object | boolean>> = {
  'all documents': true,
  'own documents': { _owner: '$user.id' },
  'a field': { open: true },
  'not a field': { $not: { open: true } },
  'one of two': { $or: [{ open: true }, { _owner: '$user.id' }] },
  'a comparison': { n: { gte: 5 } },
  'a claim': { team: '$user.claims.team' },
  'members of a list': { team: { in: '$user.claims.teams' } },
  'a lookup': { team: { in: '$lookups.teams' } },
  'no document': { n: { lt: 0 } },
}
const PARENTS = 4
const CHILDREN = 24

interface Family {
  readonly parents: string
  readonly children: string
}

async function declareFamily(workspace: TestWorkspace, rule: object | boolean): Promise<Family> {
  const { operator: as, workspaceId: workspace_id } = workspace
  const [parents, children, memberships] = [unique('parents'), unique('children'), unique('memberships')]
  const declare = async (collection: string, body: object) => {
    const { status } = await call('POST', '/v1/schemas', {
      as,
      body: { workspace_id, collection, store: 'relational', ...body },
    })
    expect(status).toBe(201)
  }
  const read = { access: { user: { read: rule, create: true }, lookups: {} } }
  const lookups = { teams: { collection: memberships, field: 'team', filter: { user: '$user.id' } } }
  await declare(memberships, {
    schema: { properties: { user: { type: 'string' }, team: { type: 'string' } } },
  })
  const isLookedUp = JSON.stringify(rule).includes('$lookups')
  const access = isLookedUp ? { access: { ...read.access, lookups } } : { access: { user: read.access.user } }
  const fields = {
    open: { type: 'boolean' },
    n: { type: 'integer' },
    team: { type: 'string' },
  }
  await declare(parents, { schema: { properties: fields }, ...access })
  await declare(children, {
    schema: { properties: { ...fields, parent_id: { type: 'string', format: 'uuid' } } },
    references: [{ field: 'parent_id', collection: parents, as: 'parent', inverse: 'children' }],
    ...access,
  })
  const body = { user: 'uma', team: 'red' }
  await call('POST', `/v1/collections/${memberships}/documents`, { as: workspace.service, body })
  return { parents, children }
}

const fieldsOf = (n: number) => ({ open: n % 3 === 0, n, team: ['red', 'blue', 'green'][n % 3] })

async function fill(workspace: TestWorkspace, { parents, children }: Family, users: readonly Caller[]) {
  const create = async (collection: string, body: object, as: Caller) => {
    const made = await call('POST', `/v1/collections/${collection}/documents`, { as, body })
    // A user may create what they may not read: its reply has the id all the same.
    return made.status === 201 ? (made.body.id as string) : undefined
  }
  const ids: string[] = []
  for (let n = 0; n < PARENTS; n++) {
    const id = await create(parents, fieldsOf(n * 3), users[n % users.length] ?? workspace.service)
    if (id !== undefined) ids.push(id)
  }
  for (let n = 0; n < CHILDREN; n++) {
    const as = n % 2 === 0 ? workspace.service : (users[n % users.length] ?? workspace.service)
    await create(children, { ...fieldsOf(n), parent_id: ids[n % ids.length] }, as)
  }
}

interface Shown {
  readonly id: string
  readonly parent_id?: string
  readonly _expand?: { readonly parent: Shown | null; readonly children: readonly Shown[] }
}

test.each(Object.entries(RULES))('rule of %s: expand shows what lists show', async (_, rule) => {
  const workspace = await createTestWorkspace()
  const stranger = await createTestWorkspace()
  const claims = { team: 'blue', teams: ['red', 'green'] }
  const [uma, otto] = [await userToken(workspace, 'uma', claims), await userToken(workspace, 'otto', claims)]
  const family = await declareFamily(workspace, rule)
  await fill(workspace, family, [uma, otto])
  const list = async (as: Caller, collection: string, expand = ''): Promise<Shown[]> => {
    const path = `/v1/collections/${collection}/documents?page[size]=200${expand}`
    const { status, body } = await call('GET', path, { as })
    expect(status).toBe(200)
    return body.data
  }
  for (const as of [uma, otto, workspace.service]) {
    const [parents, children] = [await list(as, family.parents), await list(as, family.children)]
    const visible = new Set(parents.map(({ id }) => id))
    const withChildren = await list(as, family.parents, '&expand=children(;size=100)')
    expect(withChildren.map(({ id, _expand }) => [id, _expand?.children.map((one) => one.id)])).toEqual(
      parents.map(({ id }) => [
        id,
        children.filter(({ parent_id }) => parent_id === id).map((one) => one.id),
      ]),
    )
    const withParent = await list(as, family.children, '&expand=parent()')
    expect(withParent.map(({ id, _expand }) => [id, _expand?.parent?.id])).toEqual(
      children.map(({ id, parent_id = '' }) => [id, visible.has(parent_id) ? parent_id : undefined]),
    )
  }
  const { body: refused } = await call('GET', `/v1/collections/${family.parents}/documents?expand=children`, {
    as: stranger.service,
  })
  expect(refused.code ?? refused.data).toEqual('expand_invalid')
})
