/** Declared collections: what a schema may be, what it does to documents, who sees it. */

import { beforeAll, describe, expect, test } from 'vitest'
import { aRoom, asSuperuser, call, type Room, tokenOf, unique } from '../support/tenants.ts'

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

const TODO = {
  type: 'object',
  required: ['title'],
  properties: {
    title: { type: 'string', minLength: 1, maxLength: 20 },
    age: { type: 'integer', minimum: 0 },
    done: { type: 'boolean' },
    state: { $ref: '#/$defs/state' },
    tags: { type: 'array', items: { type: 'string' } },
  },
  additionalProperties: false,
  $defs: { state: { enum: ['open', 'closed'] } },
}

interface Declared {
  collection?: string
  store?: string
  schema?: unknown
  [member: string]: unknown
}

const declare = (body: Declared = {}, of: Room = room) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: {
      workspace_id: of.workspaceId,
      collection: unique('c'),
      store: 'relational',
      schema: TODO,
      ...body,
    },
  })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

describe.each(['relational', 'document'])('a %s collection', (store) => {
  test('is declared, read, listed, withdrawn when it is empty', async () => {
    const of = await aRoom()
    const made = await declare({ store }, of)
    expect(made.status).toBe(201)
    expect(made.headers.get('location')).toBe(`/v1/schemas/${made.body.id}`)
    expect(made.body).toMatchObject({
      store,
      schema: TODO,
      mode: 'enforce',
      access: {},
      tenant_id: of.tenantId,
    })
    const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: of.tenantId })
    expect((await call('GET', `/v1/schemas/${made.body.id}`, { as })).body).toEqual(made.body)
    expect((await call('GET', '/v1/schemas', { as })).body.data).toEqual([made.body])
    const { body } = await call('POST', at(made.body.collection), { as: of.service, body: { title: 'a' } })
    const full = await call('DELETE', `/v1/schemas/${made.body.id}`, { as })
    expect([full.status, full.body.code]).toEqual([409, 'state_conflict'])
    expect((await call('GET', at(made.body.collection, body.id), { as: of.service })).body.title).toBe('a')
    await call('DELETE', at(made.body.collection, body.id), { as: of.service })
    expect((await call('DELETE', `/v1/schemas/${made.body.id}`, { as })).body).toEqual({
      id: made.body.id,
      deleted: true,
    })
    expect((await call('GET', `/v1/schemas/${made.body.id}`, { as })).status).toBe(404)
    expect(await asSuperuser(`select from pg_class where relname = $1`, [made.body.id])).toEqual([])
  })
})
