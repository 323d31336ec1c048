/** Fields of the SDK's log lines about failures of tenants' code: neither messages nor output of that code. */

import { ActivityFailure, ApplicationFailure, RetryState } from '@temporalio/common'
import { expect, test } from 'vitest'
import { sdkFields } from '../../../src/activities/sdk-log.ts'

const failure = ApplicationFailure.create({
  message: 'the detail of the tenant',
  type: 'function_error',
  nonRetryable: true,
  details: [{ detail: 'the detail of the tenant' }, { logs: ['a line of the tenant'] }],
})
const meta = { activityType: 'runFunction', workflowId: 'ten_1:ws_1:fn_1:1', attempt: 1, taskToken: 'AAAA' }
const visible = { activityType: 'runFunction', workflowId: 'ten_1:ws_1:fn_1:1', attempt: 1 }

test('a failed activity: its code, type and workflow, and nothing that the tenant wrote', () => {
  const fields = sdkFields({ meta: { ...meta, error: failure } })
  expect(fields).toEqual({ ...visible, code: 'function_error' })
})

test('a failed workflow: the code of the cause', () => {
  const error = new ActivityFailure('failed', 'runFunction', '1', RetryState.TIMEOUT, 'worker', failure)
  expect(sdkFields({ meta: { workflowId: 'w', workflowType: 'functionRun', error } })).toEqual({
    workflowId: 'w',
    workflowType: 'functionRun',
    code: 'function_error',
  })
})

test('other lines, and those of the worker itself: unchanged', () => {
  const ofWorker = { taskQueue: 'functions', error: new Error('no connection') }
  expect(sdkFields({ meta: ofWorker })).toBe(ofWorker)
  expect(sdkFields({ meta })).toBe(meta)
})

test('a failed activation of a workflow: the cause, which is the interpreter or the SDK and no tenant', () => {
  const error = new Error('Script execution timed out after 5000ms')
  expect(sdkFields({ meta: { workflowId: 'w', workflowType: 'flowExecution', error } })).toEqual({
    workflowId: 'w',
    workflowType: 'flowExecution',
    code: 'Error',
    cause: 'Script execution timed out after 5000ms',
  })
})
