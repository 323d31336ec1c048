/** Payloads of a workflow are encrypted unless they contain no tenant data or never leave the process. */

import { RawValue } from '@temporalio/common'
import { expect, test } from 'vitest'
import { PAYLOAD_MARK, WorkInput } from '../../../src/core/work.ts'
import { payloadConverter } from '../../../src/workflows/payload-converter.ts'

const about = { namespace: 'n', workflowId: 'w' }
const activity = (isLocal: boolean) => ({ type: 'activity' as const, ...about, activityId: '1', isLocal })

test.each([
  ['a result or an input of another workflow', { n: 1 }, { type: 'workflow' as const, ...about }, undefined],
  ['what nobody says more of', { n: 1 }, undefined, undefined],
  ['what an activity with a task is asked', { n: 1 }, activity(false), undefined],
  [
    'what an activity beside the run is asked',
    new WorkInput('activity:x', { n: 1 }),
    activity(true),
    'local',
  ],
  ['what an activity beside the run answers', { n: 1 }, activity(true), undefined],
  ['a line for operators', new RawValue('flow'), activity(true), 'cleartext'],
])('payload of %s: has the expected visibility', (_what, value, context, mark) => {
  const { metadata } = payloadConverter.toPayload(value, context) ?? {}
  const said = metadata?.[PAYLOAD_MARK]
  expect(said && new TextDecoder().decode(said)).toBe(mark)
})
