// floor LISTEN SERVER... is the least that a proxy can do, as a measure for proxies: one thread, one connection to each server,
// and one read and one write a hop. What one epoll_wait brings for a server goes there in one write, and consecutive replies
// for a client in one. It has no features: the n-th client uses server n modulo the number of servers, whatever the keys, and a
// broken line ends the program. Addresses are IPv4:PORT. It is never shipped: `mcmwlab bench` compiles it.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { max_fds = 1 << 16, max_events = 512, max_servers = 16, client_buffer = 1 << 17, server_buffer = 1 << 22, max_waiting = 1 << 16 };

struct client { // by its file descriptor
	char *in; // incomplete requests; NULL: it is closed
	size_t have;
	struct server *server;
	unsigned generation; // counts the clients with this descriptor
};

struct server {
	int fd;
	char in[server_buffer], out[server_buffer]; // incomplete replies, and requests of this epoll_wait
	size_t have, pending;
	struct { int client; unsigned generation, requests; } waiting[max_waiting]; // for replies, in the order of the requests
	unsigned first, end;
};

static struct client clients[max_fds];
static struct server servers[max_servers];

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
	int one = 1;
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	need(fd < max_fds && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0, "epoll_ctl");
}

// unit returns the length of the first line in a buffer, with the data block whose size is its last number if it begins with
// word; 0 if it is not complete.
static size_t unit(const char *at, size_t have, const char *word) {
	const char *end = memchr(at, '\n', have);
	if (end == NULL) return 0;
	size_t length = end + 1 - at;
	if (strncmp(at, word, strlen(word)) == 0) {
		while (end[-1] != ' ') end--;
		length += atoi(end) + 2;
	}
	return length <= have ? length : 0;
}

static void from_client(int fd) {
	struct client *c = &clients[fd];
	struct server *s = c->server;
	ssize_t size = recv(fd, c->in + c->have, client_buffer - c->have, 0); // epoll says that it doesn't block
	if (size <= 0) {
		free(c->in);
		c->in = NULL;
		close(fd);
		return;
	}
	c->have += size;
	size_t whole = 0, length;
	unsigned requests = 0;
	for (; (length = unit(c->in + whole, c->have - whole, "set ")) > 0; whole += length) requests++;
	if (requests == 0) return;
	need(s->pending + whole <= server_buffer && s->end - s->first < max_waiting, "too many requests");
	memcpy(s->out + s->pending, c->in, whole);
	s->pending += whole;
	memmove(c->in, c->in + whole, c->have -= whole);
	s->waiting[s->end % max_waiting].client = fd;
	s->waiting[s->end % max_waiting].generation = c->generation;
	s->waiting[s->end++ % max_waiting].requests = requests;
}

static void from_server(struct server *s) {
	ssize_t size = recv(s->fd, s->in + s->have, server_buffer - s->have, 0);
	need(size > 0, "a server has closed its connection");
	s->have += size;
	size_t sent = 0, replied = 0, length; // replied: the end of the last complete reply
	for (size_t at = 0; (length = unit(s->in + at, s->have - at, "VALUE ")) > 0;) {
		int last = s->in[at] != 'V';
		at += length;
		if (!last) continue; // END follows
		replied = at;
		if (--s->waiting[s->first % max_waiting].requests > 0) continue;
		int fd = s->waiting[s->first % max_waiting].client;
		if (clients[fd].in != NULL && clients[fd].generation == s->waiting[s->first % max_waiting].generation) send(fd, s->in + sent, replied - sent, 0);
		sent = replied;
		s->first++;
	}
	if (replied > sent) { // a part of the replies to a burst
		int fd = s->waiting[s->first % max_waiting].client;
		if (clients[fd].in != NULL && clients[fd].generation == s->waiting[s->first % max_waiting].generation) send(fd, s->in + sent, replied - sent, 0);
	}
	memmove(s->in, s->in + replied, s->have -= replied);
}

int main(int argc, char **argv) {
	int n = argc - 2, next = 0, one = 1, epoll = epoll_create1(0), listener = socket(AF_INET, SOCK_STREAM, 0);
	need(n > 0 && n <= max_servers, "usage: floor LISTEN SERVER...");
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < n; i++) {
		struct sockaddr_in a = address(argv[2 + i]);
		servers[i].fd = socket(AF_INET, SOCK_STREAM, 0);
		need(connect(servers[i].fd, (struct sockaddr *)&a, sizeof a) == 0, argv[2 + i]);
		watch(epoll, servers[i].fd);
	}
	struct sockaddr_in own = address(argv[1]);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	need(bind(listener, (struct sockaddr *)&own, sizeof own) == 0 && listen(listener, 4096) == 0, argv[1]);
	watch(epoll, listener);
	for (;;) {
		struct epoll_event events[max_events];
		int ready = epoll_wait(epoll, events, max_events, -1);
		for (int i = 0; i < ready; i++) {
			int fd = events[i].data.fd, server = 0;
			while (server < n && servers[server].fd != fd) server++;
			if (fd == listener) {
				int client = accept(listener, NULL, NULL);
				need(client >= 0 && client < max_fds, "accept");
				struct client *c = &clients[client];
				*c = (struct client){.in = malloc(client_buffer), .server = &servers[next++ % n], .generation = c->generation + 1};
				need(c->in != NULL, "malloc");
				watch(epoll, client);
			} else if (server < n) {
				from_server(&servers[server]);
			} else {
				from_client(fd);
			}
		}
		for (int i = 0; i < n; i++) {
			struct server *s = &servers[i];
			if (s->pending == 0) continue;
			need(send(s->fd, s->out, s->pending, 0) == (ssize_t)s->pending, "writing to a server");
			s->pending = 0;
		}
	}
}
