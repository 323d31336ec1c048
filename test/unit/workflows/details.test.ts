/** Summary lines of steps in the Temporal UI. */

import { expect, test } from 'vitest'
import { utf8Length } from '../../../flows-dsl/json.ts'
import { summaryLine } from '../../../src/workflows/flow/current-details.ts'

const step = { pointer: '', name: '', kind: 'call', iteration: 0, path: '', callPath: '' }

test('summary line: long path: keeps the nearest tasks, at most 200 bytes in all', () => {
  expect(summaryLine({ ...step, breadcrumbs: '', summary: 'put: call x' })).toBe('put: call x')
  expect(summaryLine({ ...step, breadcrumbs: 'all[2] / both', summary: 'put: x' })).toBe(
    'all[2] / both / put: x',
  )
  const deep = Array.from({ length: 30 }, (_, n) => `level-${n}`).join(' / ')
  const line = summaryLine({ ...step, breadcrumbs: deep, summary: 'put: x' })
  expect(line).toMatch(/^… \/ level-\d+ .* \/ level-29 \/ put: x$/)
  expect(line).not.toContain('level-10 ')
  const wide = summaryLine({ ...step, breadcrumbs: 'ä'.repeat(300), summary: 'put: x' })
  expect(utf8Length(wide)).toBe(200)
})
