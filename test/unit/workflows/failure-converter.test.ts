/** Failures as Temporal gets them: stack traces name functions, and no path of a source file. */

import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  ChildWorkflowFailure,
  defaultPayloadConverter,
  type ProtoFailure,
  RetryState,
  ServerFailure,
  TerminatedFailure,
  TimeoutFailure,
  TimeoutType,
} from '@temporalio/common'
import { expect, test } from 'vitest'
import { failureConverter, SummarizedFailure } from '../../../src/workflows/failure-converter.ts'

/** Frames of every form that V8 writes (v8.dev/docs/stack-trace-api). */
const FRAMES = [
  'at named (/srv/tenon/src/a.ts:1:2)',
  'at async Promise.all (index 0)',
  'at new Thing (file:///srv/tenon/src/b.ts:3:4)',
  'at Object.method [as alias] (/srv/a (b)/c.ts:5:6)',
  'at eval (eval at outer (/srv/d.js:7:8), <anonymous>:9:10)',
  'at file:///srv/tenon/src/e.ts:11:12',
  'at /srv/a (b)/f.ts:13:14',
  'at async /srv/tenon/src/g.ts:15:16',
]
const NAMES = [
  ...['at named', 'at async Promise.all', 'at new Thing', 'at Object.method [as alias]', 'at eval'],
]

function thrown<E extends Error>(error: E): E {
  error.stack = [`${error.name}: two\nlines`, ...FRAMES.map((frame) => `    ${frame}`)].join('\n')
  return error
}

const cause = () => thrown(new TypeError('cause'))

test.each<Error>([
  new TypeError('plain'),
  new SummarizedFailure('raised (418)', 'message', 'type', {}),
  ApplicationFailure.nonRetryable('message', 'communication'),
  new ActivityFailure('m', 'http', '1', RetryState.NON_RETRYABLE_FAILURE, 'worker', cause()),
  new ChildWorkflowFailure('ns', { workflowId: 'w', runId: 'r' }, 'flow', RetryState.TIMEOUT, cause()),
  new CancelledFailure('m', [], cause()),
  new TimeoutFailure('m', null, TimeoutType.START_TO_CLOSE),
  new ServerFailure('m', false, cause()),
  new TerminatedFailure('m', cause()),
  Object.assign(new Error('with a cause'), { cause: cause() }),
])(
  'failure %s: stack trace has the functions of its frames, without their places; so have its causes',
  (error) => {
    let failure: ProtoFailure | null | undefined = failureConverter.errorToFailure(
      thrown(error),
      defaultPayloadConverter,
    )
    for (; failure; failure = failure.cause) {
      expect(failure.stackTrace || '').toBe('')
      const { stack_trace: stack } = defaultPayloadConverter.fromPayload<{ stack_trace: string }>(
        failure.encodedAttributes ?? {},
      )
      expect(stack.split('\n').slice(2)).toEqual(NAMES.map((name) => `    ${name}`))
    }
  },
)
