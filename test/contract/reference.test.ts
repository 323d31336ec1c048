/**
 * Checks that docs/reference is what the code generates, and that the OpenAPI document is valid and covers
 * every operation.
 */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { referenceFiles } from '../../src/cli/stack/reference.ts'
import { currentSite } from '../../src/cli/stack/site.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { call } from '../support/fixtures/tenants.ts'

test.each(Object.entries(referenceFiles()))(
  'docs/reference/%s: is up to date (npm run reference)',
  async (name, text) => {
    expect(await readFile(`docs/reference/${name}`, 'utf8')).toBe(text)
  },
)

test('API: serves that document', async () => {
  const { status, body } = await call('GET', '/openapi.json')
  expect(status).toBe(200)
  expect(body.openapi).toBe('3.1.0')
  const listed = Object.values(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap(
    (path) => Object.values(path).map(({ operationId }) => operationId),
  )
  expect(listed.sort()).toEqual(OPERATIONS.map(({ name }) => name).sort())
})

test('text for language models: its links answer, and the paths of its areas exist', async () => {
  await currentSite()
  const { status, headers, body: text } = await call('GET', '/llms.txt')
  expect([status, headers.get('content-type')]).toEqual([200, 'text/plain; charset=utf-8'])
  for (const [, path = ''] of String(text).matchAll(/\]\((\/[^)]*)\)/g))
    expect([path, (await call('GET', path)).status]).toEqual([path, path.endsWith('/mcp') ? 405 : 200])
  const { body } = await call('GET', '/openapi.json')
  const known = Object.keys(body.paths).map((path) => path.replaceAll(/\{\w+\}/g, '{}'))
  const named = [...String(text).matchAll(/`(?:[A-Z]+ )?(\/v1\/[^`?]*)`/g)].map(([, path = '']) => path)
  expect(named.length).toBeGreaterThan(6)
  for (const path of named) {
    const pattern = path.replaceAll(/\{\w+\}/g, '{}')
    expect([path, known.some((one) => one === pattern || one.startsWith(`${pattern}/`))]).toEqual([
      path,
      true,
    ])
  }
})

test('path parameters: are all declared', async () => {
  const { body } = await call('GET', '/openapi.json')
  for (const [path, methods] of Object.entries(
    body.paths as Record<string, Record<string, { parameters: { name: string; in: string }[] }>>,
  )) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    for (const { parameters } of Object.values(methods)) {
      expect(
        parameters
          .filter(({ in: place }) => place === 'path')
          .map(({ name }) => name)
          .sort(),
      ).toEqual(named.sort())
    }
  }
})
