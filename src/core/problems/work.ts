/** What flows, functions and calls to the outside can end with. */

import type { Row } from './row.ts'

export const WORK = {
  flow_invalid: {
    status: 422,
    title: 'The flow is not valid',
    help: 'See `faults`: each has line and column.',
  },
  flow_too_costly: {
    status: 422,
    title: 'The flow takes too much CPU time to compile or to simulate',
    help: 'Split the flow, make its expressions simpler, or simulate it with less input.',
  },
  input_invalid: {
    status: 422,
    title: 'The input does not fit the schema of the flow',
    help: 'See `errors`: each has a pointer. Nothing was started.',
  },
  function_invalid: {
    status: 422,
    title: 'The function is not valid',
    help: 'See `faults`: each has line and column.',
  },
  output_too_large: {
    status: 413,
    title: 'The result is too large',
    help: 'Ask for less at once: a smaller page, a narrower filter.',
  },
  egress_refused: {
    status: 403,
    title: 'The platform does not send there',
    help: 'Only public addresses are reached; an operator can name exceptions.',
  },
  upstream_invalid: {
    status: 502,
    title: 'The answer of the other side is of no use',
    help: 'See `detail`.',
  },
  upstream_unavailable: { status: 502, title: 'The other side did not answer', help: 'Check its address.' },
  function_error: {
    status: 502,
    title: 'The function failed',
    help: 'See `detail`, `error` and `logs`.',
    final: true,
  },
  function_out_of_memory: {
    status: 502,
    title: 'The function needs more memory than it has',
    help: 'Raise its `memory_mb`, or keep less at once.',
    final: true,
  },
  function_output_too_large: {
    status: 502,
    title: 'The result of the function is too large',
    help: 'Store it as an object, and return its key.',
    final: true,
  },
  function_timeout: {
    status: 504,
    title: 'The function took too long',
    help: 'Raise its `timeout`, or do less at once.',
    final: true,
  },
  functions_unavailable: {
    status: 503,
    title: 'Functions cannot be run here',
    help: 'Operators: `npx tenon doctor` says what Deno is wanting.',
  },
  payload_unreadable: {
    status: 410,
    title: 'What the run carried cannot be read any more',
    help: 'Its key or its object was destroyed: that is how the data of a tenant ends.',
    final: true,
  },
  run_cut_off: {
    status: 502,
    title: 'The run was cut off',
    help: 'It may have had effects: look before you start it again.',
    final: true,
  },
} as const satisfies Record<string, Row>
