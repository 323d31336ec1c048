/** Results of elicitations, as clients send them: only an accepted one has fields. */

import { expect, test } from 'vitest'
import { acceptedFields, readElicitResult } from '../../../src/features/mcp-servers/calls/elicitation.ts'

const content = { colour: 'red' }

test.each([
  [{ action: 'accept', content }, { action: 'accept', content }, content],
  [{ action: 'accept' }, { action: 'accept', content: undefined }, undefined],
  [{ action: 'accept', content: [content] }, { action: 'accept', content: [content] }, undefined],
  [{ action: 'decline', content }, { action: 'decline' }, undefined],
  [{ action: 'cancel' }, { action: 'cancel' }, undefined],
  [{ action: ['accept'], content }, undefined, undefined],
  [{ content }, undefined, undefined],
  ['accept', undefined, undefined],
  [null, undefined, undefined],
])('the response %j: is read as %j, with the fields %j', (response, result, fields) => {
  expect(readElicitResult(response)).toEqual(result)
  expect(acceptedFields(response)).toEqual(fields)
})
