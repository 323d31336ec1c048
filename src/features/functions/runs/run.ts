/** A run of a function: the shapes that its start, its workflow and its record share. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { typeId } from '../../../core/ids.ts'
import type { Actor } from '../../../core/policy.ts'
import type { FunctionCaller, FunctionTrigger } from '../../../core/work.ts'

/** The rights with which the code of a run may call the platform: those of its caller. */
export function callerOf({ actor }: WorkspaceScope): FunctionCaller {
  const { subject, role, clientId, groups, user, scopes } = actor
  return {
    subject,
    role: role === 'user' || role === 'anon' ? role : 'service',
    ...(clientId !== undefined && { clientId }),
    ...(groups !== undefined && { groups }),
    ...(user !== undefined && { user }),
    ...(scopes !== undefined && { scopes: [...scopes] }),
  }
}

/** The trigger of a call of `function.invoke`: an execution of a flow or a function, by the id of its workflow, or a request. */
export function callTrigger({ subject }: Pick<Actor, 'subject'>): FunctionTrigger {
  const [, , from = '', uuid] = subject.split(':')
  if (uuid === undefined) return { kind: 'api' }
  return { kind: from.startsWith('fn_') ? 'function' : 'flow', id: typeId('run', uuid.slice(0, 36)) }
}
