/**
 * Checks that docs/reference is what the code generates, and that the OpenAPI document is valid and covers
 * every operation.
 */

import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { referenceFiles } from '../../src/cli/stack/reference.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { call } from '../support/fixtures/tenants.ts'

test.each(Object.entries(referenceFiles()))(
  'docs/reference/%s: is up to date (npm run reference)',
  async (name, text) => {
    expect(await readFile(`docs/reference/${name}`, 'utf8')).toBe(text)
  },
)

test('API: serves that document, and a page for people', async () => {
  const { status, body } = await call('GET', '/openapi.json')
  expect(status).toBe(200)
  expect(body.openapi).toBe('3.1.0')
  const listed = Object.values(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap(
    (path) => Object.values(path).map(({ operationId }) => operationId),
  )
  expect(listed.sort()).toEqual(OPERATIONS.map(({ name }) => name).sort())
  const page = await call('GET', '/docs/')
  expect([page.status, page.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/html')])
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
