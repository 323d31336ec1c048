/** Every operation: a query parameter that it does not know is refused, never ignored, and errors name parameters as requests spell them. */

import { expect, inject, test } from 'vitest'
import { type AnyOperation, QUERY_NAMES } from '../../../src/core/operation.ts'
import { OPERATIONS } from '../../../src/features/index.ts'
import { createTestWorkspace, sharedOperator } from '../../support/fixtures/tenants.ts'
import { pathOf } from '../../support/operation-paths.ts'

/** Operations that hand the whole request on, such as HTTP functions. */
const isRaw = ({ http }: AnyOperation) => http.takes === 'request'
const hasPages = ({ input }: AnyOperation) => Object.hasOwn(input.properties, 'page_size')

/** Parameters without which an operation is refused before it looks at others. */
const REQUIRED: Readonly<Record<string, string>> = { 'collection.list_groups': 'select=n:count()&' }

interface Refusal {
  readonly code: string
  readonly detail: string
  readonly errors: readonly { readonly name: string }[]
}

/** @returns operations whose reply is neither as expected nor the refusal of a right, which is checked first */
async function sweep(
  operations: readonly AnyOperation[],
  query: string,
  isRight: (problem: Refusal) => boolean,
): Promise<unknown[]> {
  const workspace = await createTestWorkspace()
  const admin = await sharedOperator()
  const wrong: unknown[] = []
  for (const operation of operations) {
    const { method } = operation.http
    const path = pathOf(operation, workspace.workspaceId)
    const required = REQUIRED[operation.name] ?? ''
    const response = await fetch(`${inject('tenon').url}${path}?${required}${query}`, {
      method,
      headers: operation.domain === 'data_access' ? workspace.service : admin,
    })
    if (response.status === 401 || response.status === 403) continue
    const body = await response.text()
    // A reply to HEAD has no body.
    if (method === 'HEAD' && response.headers.get('x-problem-code') === 'unknown_parameter') continue
    const problem = body.startsWith('{') ? (JSON.parse(body) as Refusal) : undefined
    if (response.status !== 400 || problem === undefined || !isRight(problem))
      wrong.push([operation.name, response.status, problem])
  }
  return wrong
}

test('operation × parameter that it does not know: 400 that names it', async () => {
  const operations = OPERATIONS.filter((operation) => !isRaw(operation))
  expect(operations.length).toBeGreaterThan(150)
  const isRight = ({ code, errors }: Refusal) =>
    ['unknown_parameter', 'filter_operator_missing'].includes(code) && errors[0]?.name === 'nosuch'
  expect(await sweep(operations, 'nosuch=1', isRight)).toEqual([])
})

test('list × wrong page[size]: 400 that names page[size]', async () => {
  const lists = OPERATIONS.filter((operation) => operation.http.method === 'GET' && hasPages(operation))
  expect(lists.length).toBeGreaterThan(20)
  expect(QUERY_NAMES['page_size']).toBe('page[size]')
  for (const size of ['0', '1.5', 'x', '1&page[size]=2'])
    expect(
      await sweep(
        lists,
        `page[size]=${size}`,
        ({ detail, errors }) =>
          errors.some(({ name }) => name === 'page[size]') && !detail.includes('page_size'),
      ),
    ).toEqual([])
})
