/** Switches off the stack traces that the SDK takes of each promise, and keeps cancellation scopes across `await`. */

/**
 * Where each promise was made is told by the query `__stack_trace`, and costs three tenths of a workflow thread's time. Of an
 * interpreter it would show the interpreter; where a run stands is in its details, and in its record. Where Node has no such
 * hooks, the SDK does without.
 *
 * By them it would also be, in passing, who switches on the hooks of Node that carry an AsyncLocalStorage over each `await`.
 * Switched on later, once there is a context of workflows, they were found not to reach into it: what a branch begins after its
 * first `await` belongs to no scope, and is not cancelled with it. So a storage that nobody asks switches them on.
 */
export function forgetPromiseStacks(): void {
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  const { promiseHooks } = process.getBuiltinModule('node:v8')
  new AsyncLocalStorage().enterWith({})
  Object.assign(promiseHooks, { createHook: undefined })
}
