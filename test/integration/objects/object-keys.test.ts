/** Keys of objects: which are taken, and their order in lists. */

import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { checkKey } from '../../../src/core/object-key.ts'
import { successorOf } from '../../../src/features/objects/catalogue.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

test.each([
  ['', 'InvalidKey'],
  ['..', 'InvalidKey'],
  ['a/../b', 'InvalidKey'],
  ['a\\..\\b', 'InvalidKey'],
  ['./a', 'InvalidKey'],
  ['a\u0000b', 'InvalidKey'],
  ['\ud800', 'InvalidKey'],
  ['é/'.repeat(400), 'KeyTooLongError'],
  ['x'.repeat(1_025), 'KeyTooLongError'],
])('object key (%#): refused with %s', (name, code) => {
  expect(() => checkKey(name)).toThrow(expect.objectContaining({ code }))
})

test.each([
  'x'.repeat(1_024),
  '%'.repeat(1_024),
  'a//b',
  '/',
  'a/',
  ' ',
  '\n',
  'a\\b',
  '\u{10ffff}',
  '.versions/x',
])('object key (%#): taken', (name) => expect(checkKey(name)).toBe(name))

/** Characters around the borders of UTF-8 and UTF-16, separators, and what stores and SQL interpret. */
const CHARACTERS = [
  ...['\u0001', '\t', ' ', '%', '_', '/', '//', '\\', "'", 'a', 'b', 'Z', '\u007f', '\u0080', 'é', 'e\u0301'],
  ...[
    '\u07ff',
    '\u0800',
    '\ud7ff',
    '\ue000',
    '\ufffd',
    '\uffff',
    '\u{10000}',
    '\u{10ffff}',
    '\u{10ffff}\u{10ffff}',
  ],
]
const text = fc.array(fc.constantFrom(...CHARACTERS), { maxLength: 5 }).map((parts) => parts.join(''))

const inByteOrder = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

test('successor of a prefix: behind all texts that begin with it, and not behind any other text behind it', () => {
  fc.assert(
    fc.property(text, text, (prefix, other) => {
      const next = successorOf(prefix)
      if (next === undefined) {
        expect(prefix.replaceAll('\u{10ffff}', '')).toBe('')
        return
      }
      const isBelow = inByteOrder(other, prefix) >= 0 && inByteOrder(other, next) < 0
      expect(isBelow).toBe(other.startsWith(prefix))
    }),
  )
})

let workspace: TestWorkspace
let bucket: string
let keys: readonly string[]
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  const drawn = fc.sample(text, { numRuns: 400, seed: 41 })
  keys = [...new Set([...drawn, 'a', 'a/', 'a/b', 'a/b/', 'a/b/c', 'a//b', 'a0'])].filter((key) => key !== '')
  await asSuperuser(
    `insert into tenon.objects (tenant_id, workspace_id, key, version, blob, size, etag)
      select $1, $2, key, gen_random_uuid(), gen_random_uuid(), 0, 'x' from jsonb_array_elements_text($3::jsonb) k (key)`,
    [workspace.tenantId, workspace.workspaceId, JSON.stringify(keys)],
  )
})

/** What a list has, by the definition of S3's ListObjects. */
function itemsOf(prefix: string, delimiter: string | undefined): string[] {
  const items = keys
    .filter((key) => key.startsWith(prefix))
    .map((key) => {
      const at = delimiter === undefined ? -1 : key.indexOf(delimiter, prefix.length)
      return at < 0 ? key : key.slice(0, at + (delimiter?.length ?? 0))
    })
  return [...new Set(items)].sort(inByteOrder)
}

async function listAll(query: Readonly<Record<string, string>>): Promise<string[]> {
  const items: string[] = []
  let after: string | null = null
  do {
    const all = new URLSearchParams({ ...query, ...(after !== null && { 'page[after]': after }) })
    const { status, body } = await call('GET', `/v1/objects/${bucket}?${all}`, { as: workspace.service })
    expect(status, JSON.stringify([query, body])).toBe(200)
    const page = [...body.data.map(({ key }: { key: string }) => key), ...(body.prefixes ?? [])]
    expect(page.length).toBeGreaterThan(0)
    items.push(...page.sort(inByteOrder))
    after = body.page.next
  } while (after !== null)
  return items
}

test('lists of 400 odd keys: any prefix, delimiter and page size: each item once, in byte order', async () => {
  const request = fc.record({
    prefix: fc.oneof(fc.constantFrom('', 'a', 'a/', 'a/b/'), text),
    delimiter: fc.option(fc.constantFrom('/', '//', 'a', 'é\u{10ffff}', 'é'), { nil: undefined }),
    size: fc.constantFrom(29, 200),
  })
  await fc.assert(
    fc.asyncProperty(request, async ({ prefix, delimiter, size }) => {
      const expected = itemsOf(prefix, delimiter)
      if (expected.length === 0) return
      const query = { prefix, 'page[size]': `${size}`, ...(delimiter !== undefined && { delimiter }) }
      expect(await listAll(query)).toEqual(expected)
    }),
    { numRuns: 12, seed: 41 },
  )
})
