/** The path of an operation, for sweeps of requests that are refused before anything is looked up. */

import type { AnyOperation } from '../../src/core/operation.ts'

/** @returns the path with the workspace's id, and `x` for every other parameter */
export const pathOf = ({ http }: AnyOperation, workspaceId: string): string =>
  http.path.replaceAll(/\{(\w+)\*?\}/g, (_, name: string) => (name === 'ws' ? workspaceId : 'x'))
