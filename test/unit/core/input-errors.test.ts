/** Messages about values that an enum does not have. */

import { expect, test } from 'vitest'
import type { Problem } from '../../../src/core/problem.ts'
import { listExecutions } from '../../../src/features/flows/executions/executions.ts'
import { listSteps } from '../../../src/features/flows/executions/steps.ts'
import { createOAuthClient } from '../../../src/features/identity/clients/clients-api.ts'

/** The errors of an input that is not valid. */
function errorsOf({ parse }: { parse(input: unknown): unknown }, input: object): string[] {
  try {
    parse(input)
  } catch (error) {
    return ((error as Problem).errors ?? []).map(({ pointer, detail }) => `${pointer} ${detail}`)
  }
  return []
}

const WS = 'ws_01m8d7j9z4ey18tqh5stzxs4vt'

test('enum of many constants: one error, which names all of them', () => {
  const [error, ...more] = errorsOf(listExecutions, { ws: WS, status: ['failed'] })
  expect(more).toEqual([])
  expect(error).toMatch(/^\/status\/0 must be one of pending, running, .*, cancelled, faulted, completed$/)
})

test('enum of a list; two enums in one input: one error each', () => {
  const step = errorsOf(listSteps, { ws: WS, id: 'run_01m8d7j9z4ey18tqh5stzxs4vt', status: 'zz' })
  expect(step).toEqual([expect.stringMatching(/^\/status must be one of [a-z]+, /)])
  const client = { name: 'x', kind: 'zz', audience: 'nobody' }
  expect(errorsOf(createOAuthClient, client).toSorted()).toEqual([
    '/audience must be one of accounts, users',
    '/kind must be one of machine, public',
  ])
})
