/** Every workflow type there is; the entry of the bundle. */

export { flowRun } from './flow-run.ts'
export { flowTrigger } from './flow-trigger.ts'
export { functionRun } from './function-run.ts'
export { indexBuild } from './index-build.ts'
export { provision } from './provision.ts'
export { registration } from './registration.ts'
export { suspension } from './suspension.ts'
