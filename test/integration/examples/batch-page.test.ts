// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Runs the examples of docs/batch.md, and those of docs/collections.md that change documents, as they stand there. */

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployed, resultOf } from '../../support/fixtures/functions.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
})

const blocks = (page: string, language: string): string[] =>
  [...readFileSync(page, 'utf8').matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)\\n\`\`\``, 'gm'))].map(
    ([, code = '']) => code,
  )

/** What the commands print, line by line, as JSON. */
async function run(page: string) {
  const env = {
    ...process.env,
    TENON_URL: inject('tenon').url,
    TENON_SERVICE_KEY: workspace.service['apikey'],
  }
  // Answers have no line break at their end.
  const requests = blocks(page, 'sh').filter((block) => !block.startsWith('npx tenon'))
  const commands = requests.map((block) => `${block}\necho`)
  const { stdout } = await promisify(execFile)('bash', ['-c', commands.join('\n')], { env })
  const lines = stdout.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line))
}

/** The answer that the page shows below a command, with `…` for what differs. */
function shown(page: string, at: number) {
  const lines = (blocks(page, 'sh')[at] ?? '').split('\n').filter((line) => line.startsWith('# '))
  return JSON.parse(lines.map((line) => line.slice(2)).join(''))
}

const likeShown = (answer: unknown, expected: { committed: boolean; results: { id: string }[] }) => {
  const ids = new Map<string, unknown>()
  const results = (answer as typeof expected).results.map(({ id, ...rest }, at) => {
    const named = expected.results[at]?.id ?? ''
    // The same id on the page is the same id in the answer.
    if (ids.has(named)) expect(id).toBe(ids.get(named))
    ids.set(named, id)
    return { ...rest, id: named }
  })
  expect({ ...(answer as object), results }).toEqual(expected)
}

test('page of batches: commands print what the page shows, function and flow do what it says', async () => {
  const page = 'docs/batch.md'
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection: 'customers', store: 'relational' },
    schema: { type: 'object', properties: { name: { type: 'string' } } },
    unique: [['name']],
  }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const answers = await run(page)
  expect(answers).toHaveLength(4)
  for (const at of [0, 1, 2]) likeShown(answers[at], shown(page, at))
  expect(answers[3].committed).toBe(true)
  const get = async (collection: string, id: string) =>
    (await call('GET', `/v1/collections/${collection}/documents/${id}`, { as: workspace.service })).body
  const [customer, order] = answers[1].results.map(({ id }: { id: string }) => id)
  expect(await get('customers', customer)).toMatchObject({ orders: 1, latest: [order], _version: 2 })

  const [source = ''] = blocks(page, 'js')
  const made = await resultOf(workspace.service, await deployed(workspace, source), {
    name: 'Ada',
    total: 12,
  })
  expect(await get('orders', made)).toMatchObject({ customer_id: customer, total: 12 })

  const [task = ''] = blocks(page, 'yaml')
  const executions = new Executions(workspace)
  const flow = await executions.publish(task)
  const ended = await executions.ended(await executions.start(flow, { input: { customer } }))
  expect([ended.error, ended.output.committed]).toEqual([null, true])
  expect(await get('customers', customer)).toMatchObject({ orders: 2 })
})

test('page of collections: a patch, operators, and a document under a chosen id', async () => {
  const [patched, changed, status] = await run('docs/collections.md')
  expect(patched).toMatchObject({ title: 'buy milk', done: true })
  expect(changed).toMatchObject({
    id: patched.id,
    shop: { city: 'Rome' },
    seen: 1,
    tags: ['milk'],
    _version: 3,
  })
  expect(changed.seen_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(status).toBe(201)
})

test('page of collections: a collection is renamed, truncated and dropped by the command line', async () => {
  const env = operatorEnv(workspace)
  const block = blocks('docs/collections.md', 'sh').find((one) => one.startsWith('npx tenon')) ?? ''
  const printed: string[] = []
  for (const [, command = ''] of block.matchAll(/^npx tenon (.*)$/gm)) {
    const args = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '')
    const { code, stdout, stderr } = await runCommand(args, { env })
    expect(code, stderr).toBe(0)
    if (!stdout.startsWith('{')) printed.push(`# ${stdout.trim()}`)
  }
  expect(printed).toEqual(block.split('\n').filter((line) => line.startsWith('#')))
  expect(printed).toHaveLength(3)
})
