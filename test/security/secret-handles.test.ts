// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Secrets of flows are refused in documents and objects, which others can read. */

import { beforeAll, describe, expect, test } from 'vitest'
import { canary, draftFlow, publishFlow, runFlow, storeSecret } from '../support/fixtures/secrets.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
let id: string
const value = canary()
const documents = '/v1/collections/kept/documents'
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  await storeSecret(workspace, 'token', value)
  id = (await call('POST', documents, { as: workspace.service, body: { n: 1 } })).body.id
})

/** Calls that store their arguments, each with `text` among them. */
const calls = (text: string): readonly [string, object][] => [
  ['collection.create', { name: 'kept', document: { n: 2, deep: [{ text }] } }],
  ['collection.update', { name: 'kept', id, document: { text } }],
  ['object.put', { bucket, key: 'kept', content: { text } }],
  ['object.put', { bucket, key: 'kept', content: text }],
  ['object.put', { bucket, key: text, content: 1 }],
]
const task = (name: string, args: object, more = {}) =>
  `  - keep: ${JSON.stringify({ call: name, with: args, ...more })}`

/** Expects only what the test itself stored. */
async function expectNothingStored(): Promise<void> {
  const { body } = await call('GET', documents, { as: workspace.service })
  expect(body.data).toEqual([expect.objectContaining({ id, n: 1, _version: 1 })])
  expect((await call('GET', `/v1/objects/${bucket}`, { as: workspace.service })).body.data).toEqual([])
}

describe('definition that passes a secret to a storing call', () => {
  test.each([0, 1, 2, 3, 4])(
    'call %i: validation names the location, publication is refused',
    async (nth) => {
      const [name, args] = calls('${ "Bearer " + $secrets.token }')[nth] ?? ['', {}]
      const source = `document: { dsl: '1.0.3', namespace: test, name: stores-${nth}, version: '1.0.0' }
use: { secrets: [token] }
do:
${task(name, args)}
`
      const { body } = await call('POST', `${workspace.flows}/validate`, {
        as: workspace.operator,
        body: { source },
      })
      expect(body).toMatchObject({
        valid: false,
        diagnostics: [{ code: 'secret_stored', line: 4, message: expect.stringContaining(`\`${name}\``) }],
      })
      expect(body.diagnostics[0].message).toContain('`token`')
      const draft = await call('POST', `${workspace.flows}/definitions`, {
        as: workspace.operator,
        body: { source },
      })
      if (draft.status === 201) {
        const versions = `${workspace.flows}/definitions/stores-${nth}/versions`
        const { status } = await call('POST', versions, { as: workspace.operator, body: {} })
        expect(status).toBe(422)
      } else expect(draft.status).toBe(422)
    },
  )

  test('call that stores nothing: published', async () => {
    const query = task('collection.query', { name: 'kept', filter: { n: '${ $secrets.token }' } })
    await draftFlow(workspace, ['token'], query)
    await draftFlow(
      workspace,
      ['token'],
      task('event.publish', { topic: 'told', data: '${ $secrets.token }' }),
    )
  })
})

describe('execution that reaches a storing call with a secret', () => {
  test.each([0, 1, 2, 3, 4])('call %i: faults with a configuration error, stores nothing', async (nth) => {
    const [name, args] = calls('${ .text }')[nth] ?? ['', {}]
    const made = '  - make: { set: { text: \'${ "x" + $secrets.token + "y" }\' } }'
    const flow = await publishFlow(workspace, ['token'], `${made}\n${task(name, args)}`)
    const body = await runFlow(workspace, flow)
    expect(body, JSON.stringify(body)).toMatchObject({
      status: 'faulted',
      error: { instance: '/do/1/keep' },
    })
    expect(body.error.type).toMatch(/configuration$/)
    expect(body.error.detail).toBe(
      `\`${name}\` would store the secret \`token\`, which others could then read. Leave the secret out. Only calls of other servers and functions can receive secrets.`,
    )
    expect(JSON.stringify(body)).not.toContain(value)
    await expectNothingStored()
  })

  test('secret as a member name: faults', async () => {
    const made =
      "  - make: { set: { '${ $secrets.token }': 1 }, output: { as: '${ { ($secrets.token): 1 } }' } }"
    const keep = task('collection.create', { name: 'kept', document: '${ . }' })
    const body = await runFlow(workspace, await publishFlow(workspace, ['token'], `${made}\n${keep}`))
    expect(body.error?.type, JSON.stringify(body)).toMatch(/configuration$/)
    await expectNothingStored()
  })

  test('fault caught: the flow continues, nothing is stored', async () => {
    const keep = { keep: { call: 'collection.create', with: { name: 'kept', document: '${ . }' } } }
    const caught = {
      try: [keep],
      catch: { as: 'problem', do: [{ said: { set: { said: '${ $problem.type }' } } }] },
    }
    const tasks = `  - make: { set: { text: '\${ $secrets.token }' } }\n  - attempt: ${JSON.stringify(caught)}`
    const body = await runFlow(workspace, await publishFlow(workspace, ['token'], tasks))
    expect(body, JSON.stringify(body)).toMatchObject({
      status: 'completed',
      output: { said: expect.stringMatching(/configuration$/) },
    })
    await expectNothingStored()
  })
})
