#!/bin/bash
# nc -z <host> <port>
exec 3<> "/dev/tcp/$2/$3"
