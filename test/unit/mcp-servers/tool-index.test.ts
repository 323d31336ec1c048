/** The ranking of tools for a query. */

import { describe, expect, test } from 'vitest'
import type { PublishedVersion } from '../../../src/features/mcp-servers/manifest.ts'
import { rankTools } from '../../../src/features/mcp-servers/search/tool-index.ts'
import type { Tool } from '../../../src/features/mcp-servers/tool.ts'

function tool(name: string, description = '', properties: object = {}): Tool {
  return {
    name,
    title: name,
    description,
    candidate: `collections:${name}:list`,
    input_schema: { type: 'object', properties },
    annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    scope: name,
    reads: true,
    binding: { source: 'collections', operation: 'document.list', fixed: {} },
  }
}

let versions = 0
const versionOf = (...tools: Tool[]): PublishedVersion => ({
  version: 1,
  hash: `hash ${++versions}`,
  manifest: { name: 'Shop', description: '', tools },
})
const names = (version: PublishedVersion, query: string) => rankTools(version, query).map(({ name }) => name)

const SHOP = versionOf(
  tool('cart_get', 'Reads a cart. Refunds are elsewhere.'),
  tool('orders_list', 'Lists orders.', { customer: {} }),
  tool('refundsCreate', 'Pays money back.', { order_id: {} }),
  tool('straße_list', 'Lists streets.'),
)

describe('rankTools', () => {
  test.each([
    ['refund', ['refundsCreate', 'cart_get']],
    ['REFUNDS create!', ['refundsCreate', 'cart_get']],
    ['order', ['orders_list', 'refundsCreate']],
    ['customer', ['orders_list']],
    ['ｃａｒｔ', ['cart_get']],
    ['Straße', ['straße_list']],
    ['', []],
    ['constructor __proto__', []],
  ])('%j: %j', (query, expected) => {
    expect(names(SHOP, query)).toEqual(expected)
  })

  test('equal scores: in the order of the manifest', () => {
    const same = versionOf(...['b', 'c', 'd'].map((name) => tool(name, 'The same words.')))
    expect(names(same, 'words same')).toEqual(['b', 'c', 'd'])
  })

  test('repeated words of a description: count less than the name', () => {
    const stuffed = versionOf(tool('other', 'pay '.repeat(500)), tool('pay_invoice', 'Settles a bill.'))
    expect(names(stuffed, 'pay')[0]).toBe('pay_invoice')
  })

  test('repeated words of a query: count once', () => {
    expect(names(SHOP, `${'cart '.repeat(40)}orders`)).toEqual(names(SHOP, 'cart orders'))
  })

  test('version without tools, and without words: nothing found', () => {
    expect(names(versionOf(), 'x')).toEqual([])
    expect(names(versionOf(tool('___')), 'x')).toEqual([])
  })
})
