// floor LISTEN SERVER... is the least that a proxy can do, as a measure for proxies: one thread, epoll, one read and one write
// a hop, and no features. The n-th client is connected with server n modulo the number of servers. Addresses are
// IPv4:PORT. It is never shipped: `mcmwlab bench` compiles it. Writes block: more outstanding bytes of one client than
// socket buffers hold in both directions can stop it.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { max_fds = 1 << 16, max_events = 256 };

static int peer[max_fds]; // of each connection
static char buffer[1 << 16];

static void need(int ok, const char *what) {
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static struct sockaddr_in address(char *text) {
	struct sockaddr_in a = {.sin_family = AF_INET};
	char *colon = strrchr(text, ':');
	need(colon != NULL, text);
	*colon = 0;
	need(inet_pton(AF_INET, text, &a.sin_addr) == 1, text);
	a.sin_port = htons(atoi(colon + 1));
	*colon = ':';
	return a;
}

static void watch(int epoll, int fd) {
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	need(fd < max_fds && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
}

int main(int argc, char **argv) {
	need(argc > 2, "usage: floor LISTEN SERVER...");
	signal(SIGPIPE, SIG_IGN);
	int one = 1, next = 0, epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in own = address(argv[1]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	need(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 4096) == 0, argv[1]);
	watch(epoll, listener);
	for (;;) {
		struct epoll_event events[max_events];
		int n = epoll_wait(epoll, events, max_events, -1);
		for (int i = 0; i < n; i++) {
			int from = events[i].data.fd;
			if (from == listener) {
				int client = accept(listener, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);
				char *name = argv[2 + next++ % (argc - 2)];
				struct sockaddr_in a = address(name);
				need(client >= 0 && client < max_fds && server >= 0, "accept");
				need(connect(server, (struct sockaddr *)&a, sizeof a) == 0, name);
				setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
				setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
				peer[client] = server;
				peer[server] = client;
				watch(epoll, client);
				watch(epoll, server);
				continue;
			}
			int to = peer[from];
			if (to == 0) continue; // ended before in this batch, together with its peer
			ssize_t size = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
			// A new connection can have the number of one that ended before in this batch: it has nothing to read yet.
			if (size < 0 && errno == EAGAIN) continue;
			if (size > 0 && send(to, buffer, size, 0) == size) continue;
			peer[from] = peer[to] = 0;
			close(from);
			close(to);
		}
	}
}
