/** Checks of declarations refuse the documents that a naive model refuses, in each store, whether they are created or changed. */

import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  call as callAt,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { repeated } from '../../support/stack/soak.ts'
import { type Doc, PROPERTIES, someCase, someFields } from './check-model.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Checks of documents in MongoDB are not tested: ${missing}.`)

const CASES = repeated(20, 1_000)
const DOCUMENTS = 8

const STORES = {
  'relational in PostgreSQL': 'relational',
  'document in PostgreSQL': 'document',
  ...(missing === undefined && { 'document in MongoDB': 'document' }),
}

let mongo: MongoServer | undefined
let node: Node | undefined
let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  if (missing !== undefined) return
  mongo = await startMongo()
  node = await startInProcessNode({ MONGODB_URL: mongo.url })
})
afterAll(async () => {
  await node?.close()
  await mongo?.stop()
})

describe.each(Object.entries(STORES))('%s', (name, store) => {
  const call: typeof callAt = (method, path, options) =>
    callAt(method, path, {
      as: workspace.service,
      ...options,
      at: (name === 'document in MongoDB' ? node?.at : undefined) ?? inject('tenon'),
    })

  test('random checks and documents: what a check makes false is refused, and nothing else', async () => {
    const random = randomOf(20_261_130)
    let refused = 0
    for (let n = 0; n < CASES; n++) {
      const { check, holds } = someCase(random)
      const collection = unique('checked')
      const checks = [{ name: 'c', check }]
      const declared = await call('POST', '/v1/schemas', {
        as: workspace.operator,
        body: {
          ...{ workspace_id: workspace.workspaceId, collection, store, checks },
          schema: { properties: PROPERTIES },
        },
      })
      expect([declared.status, declared.body, check]).toMatchObject([201, {}, {}])
      const path = `/v1/collections/${collection}/documents`
      const expected = (reply: Reply, doc: Doc, status: number) => {
        const isBroken = holds(doc) === false
        if (isBroken) refused += 1
        const shown = { status: reply.status, code: reply.body.code, check, doc }
        expect(shown).toEqual({
          check,
          doc,
          status: isBroken ? 422 : status,
          code: isBroken ? 'schema_violation' : undefined,
        })
        return !isBroken
      }
      for (let document = 0; document < DOCUMENTS; document++) {
        const fields = someFields(random, 7)
        const made = await call('POST', path, { body: fields })
        if (!expected(made, fields, 201)) continue
        const changes = someFields(random, 2)
        const changed = await call('PUT', `${path}/${made.body.id}`, { body: changes })
        expected(changed, { ...fields, ...changes }, 200)
      }
    }
    expect(refused).toBeGreaterThan(CASES)
  })
})
