/** All workflow types; the entry of the bundle. */

export { indexBuild } from './collection/index-build.ts'
export { flowRun } from './flow/flow-run.ts'
export { flowTrigger, registration } from './flow/flow-trigger.ts'
export { functionRun } from './function/function-run.ts'
export { functionTrigger } from './function/function-trigger.ts'
export { provision } from './tenant/provision.ts'
export { suspension } from './tenant/suspension.ts'
