/** The operations on hosted MCP servers. */

import type { AnyOperation } from '../../core/operation.ts'
import { callServer, listCalls, verifyCalls } from './calls/calls-api.ts'
import { createClient, deleteClient, listClients } from './clients.ts'
import { curate, listCandidates } from './curation/curation.ts'
import { createSource, deleteSource, getSource, listSources, refreshSource } from './remote/sources.ts'
import { previewServer } from './review/review.ts'
import { createServer, deleteServer, getServer, listServers, updateServer } from './servers.ts'
import {
  activateServerVersion,
  approveServerVersion,
  getServerVersion,
  listServerVersions,
  publishServer,
} from './versions.ts'

export const MCP_OPERATIONS: readonly AnyOperation[] = [
  listServers,
  createServer,
  getServer,
  updateServer,
  deleteServer,
  listCandidates,
  curate,
  previewServer,
  publishServer,
  listServerVersions,
  getServerVersion,
  activateServerVersion,
  approveServerVersion,
  callServer,
  listCalls,
  verifyCalls,
  createClient,
  listClients,
  deleteClient,
  createSource,
  listSources,
  getSource,
  refreshSource,
  deleteSource,
]
