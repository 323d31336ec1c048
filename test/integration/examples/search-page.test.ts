/** Runs the example of docs/search.md as it stands there. */

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const PAGE = readFileSync('docs/search.md', 'utf8')
const blocks = (language: string): string[] =>
  [...PAGE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)\\n\`\`\``, 'gm'))].map(([, code = '']) => code)

test('page of searches: the declaration is accepted, the command and the query in JSON answer what the page shows', async () => {
  const workspace = await createTestWorkspace()
  const [declaration = '', query = ''] = blocks('json')
  const declared = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, ...JSON.parse(declaration) },
  })
  expect(declared.status, JSON.stringify(declared.body)).toBe(201)
  const [commands = ''] = blocks('sh')
  const { stdout } = await promisify(execFile)('bash', ['-c', commands], {
    env: {
      ...process.env,
      TENON_URL: inject('tenon').url,
      TENON_SERVICE_KEY: workspace.service['apikey'],
    },
  })
  const shown = commands.split('\n').filter((line) => line.startsWith('# '))
  const expected = JSON.parse(shown.map((line) => line.slice(2)).join(''))
  const withoutIds = ({ data, page }: { data: { id: string }[]; page: object }) => ({
    data: data.map((document) => ({ ...document, id: '…' })),
    page,
  })
  expect(withoutIds(JSON.parse(stdout))).toEqual(expected)
  const inJson = await call('POST', '/v1/collections/recipes/query', {
    as: workspace.service,
    body: JSON.parse(query),
  })
  expect(withoutIds(inJson.body)).toEqual(expected)
  for (const [, text = ''] of PAGE.matchAll(/^\| `(_search=[^`]+)` \|/gm)) {
    const [name = '', value = ''] = text.split('=')
    const path = `/v1/collections/recipes/documents?${name}=${encodeURIComponent(value)}`
    const { status, body } = await call('GET', path, { as: workspace.service })
    expect([text, status, body.data.length > 0]).toEqual([text, 200, true])
  }
})
